"""SFT and RL by ms-swift, in an environment of its own: command lines, data and logs."""
