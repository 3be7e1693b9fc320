#!/bin/sh
export CUDA_VISIBLE_DEVICES=4,5
exec swift rollout \
  --model CHECKPOINT \
  --model_type qwen3_5 \
  --use_chat_template false \
  --external_plugins BASELINE/plugin.py \
  --multi_turn_scheduler coevo \
  --max_turns 20 \
  --use_gym_env true \
  --vllm_use_async_engine true \
  --vllm_tensor_parallel_size 2 \
  --vllm_max_model_len 12288 \
  --port 8000
#!/bin/sh
export CUDA_VISIBLE_DEVICES=0,1,2,3
export NPROC_PER_NODE=4
exec swift rlhf \
  --rlhf_type grpo \
  --model CHECKPOINT \
  --model_type qwen3_5 \
  --check_model false \
  --use_chat_template false \
  --tuner_type full \
  --dataset BASELINE/tasks.jsonl \
  --split_dataset_ratio 0 \
  --load_from_cache_file false \
  --external_plugins BASELINE/plugin.py \
  --use_vllm true \
  --vllm_mode server \
  --vllm_server_host 127.0.0.1 \
  --vllm_server_port 8000 \
  --vllm_server_pass_dataset true \
  --multi_turn_scheduler coevo \
  --max_turns 20 \
  --use_gym_env true \
  --num_generations 8 \
  --num_iterations 1 \
  --temperature 1.0 \
  --max_length 8192 \
  --max_completion_length 4096 \
  --completion_length_limit_scope total \
  --learning_rate 1e-06 \
  --num_train_epochs 3 \
  --per_device_train_batch_size 1 \
  --gradient_accumulation_steps 2 \
  --beta 0.0 \
  --advantage_estimator grpo \
  --scale_rewards group \
  --importance_sampling_level token \
  --loss_type dapo \
  --epsilon 0.2 \
  --epsilon_high 0.2 \
  --torch_dtype bfloat16 \
  --bf16 true \
  --gradient_checkpointing true \
  --sequence_parallel_size 4 \
  --deepspeed zero3 \
  --seed 0 \
  --data_seed 0 \
  --logging_steps 1 \
  --save_strategy steps \
  --save_steps 500 \
  --save_total_limit 1 \
  --report_to none \
  --add_version false \
  --output_dir BASELINE/output
