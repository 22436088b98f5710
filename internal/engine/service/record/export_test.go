package record

// Fits checks fields against a declared type.
var Fits = fits
