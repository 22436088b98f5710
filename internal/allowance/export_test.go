package allowance

// Len is how many senders are remembered.
func (l *Limit[K]) Len() int { return len(l.of) }
