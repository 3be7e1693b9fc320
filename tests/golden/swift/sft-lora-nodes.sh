#!/bin/sh
export NPROC_PER_NODE=8
export MASTER_PORT=29500
export NNODES=2
export NODE_RANK=${NODE_RANK:-0}
export MASTER_ADDR=node0
exec swift sft \
  --model CHECKPOINT \
  --model_type qwen3_5 \
  --check_model false \
  --use_chat_template false \
  --disable_ignore_empty_think true \
  --tuner_type lora \
  --target_modules all-linear \
  --lora_rank 16 \
  --lora_alpha 32 \
  --lora_dropout 0.05 \
  --dataset ROWS \
  --split_dataset_ratio 0 \
  --strict true \
  --load_from_cache_file false \
  --max_length 4096 \
  --num_train_epochs 1 \
  --per_device_train_batch_size 1 \
  --gradient_accumulation_steps 2 \
  --optim adamw_torch \
  --adam_beta2 0.999 \
  --learning_rate 0.0001 \
  --lr_scheduler_type cosine \
  --warmup_ratio 0.03 \
  --weight_decay 0.0 \
  --max_grad_norm 1.0 \
  --torch_dtype bfloat16 \
  --fp16 false \
  --bf16 true \
  --gradient_checkpointing true \
  --sequence_parallel_size 2 \
  --deepspeed zero3 \
  --seed 7 \
  --data_seed 7 \
  --logging_steps 1 \
  --save_strategy steps \
  --save_steps 100 \
  --save_total_limit 1 \
  --report_to none \
  --add_version false \
  --output_dir OUTPUT \
  --resume_from_checkpoint OUTPUT/checkpoint-100
#!/bin/sh
exec swift export \
  --adapters OUTPUT/checkpoint-100 \
  --merge_lora true \
  --output_dir MERGED
