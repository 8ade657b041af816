"""Names of the numbers of a history that are no metrics of a test set, as figures and pages write them."""

LABELS = {
    "global_accuracy": "test accuracy of the global model (%)",
    "train_loss": "training loss",
    "divergence": "client divergence",
    "lr": "learning rate",
    "lambda_max": "λmax",
    "lambda_ratio": "λmax/λ5",
    "lpf": "LPF",
}
