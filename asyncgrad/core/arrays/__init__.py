"""What may be asked of any array, whichever library it is from and whichever device it is on."""
