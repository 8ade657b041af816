"""Tables, figures and reports made from run directories."""
