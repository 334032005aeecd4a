"""What a model is trained to do: corrupt a batch into inputs and targets, and score the model on them."""
