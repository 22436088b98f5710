package expr

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// costs charges a call for the data that it reads and makes, so that CostLimit bounds both time and memory.
type costs struct{}

// CallCost implements CEL's estimator. A call costs one, one for every item and one for every ten bytes. If a call reads the items
// of lists and objects, their whole content counts.
func (costs) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	cost := uint64(1)
	switch {
	case function == fnOwn:
		cost += functionCost
		for _, arg := range args[ownOperands:] {
			cost += deepWeight(arg, CostLimit)
		}
	case function == fnMatches, function == fnMatchesData:
		if a, ok := result.(*attempt); ok {
			cost += a.charge()
		} else if s, ok := result.(several); ok {
			for _, v := range s.all {
				if a, ok := v.(*attempt); ok {
					cost += a.charge()
				}
			}
		} else { // the pattern was refused, possibly after it was parsed
			cost += weight(args[0]) + refusedCost(args[1])
		}
	case function == fnFound: // charged with fnMatches
	case (function == fnEqual || function == fnDiffer) && len(args) == 2:
		cost += compareCost(args[0], args[1])
	case function == operators.In && len(args) == 2:
		cost += containedCost(args[0], args[1])
	case function == fnItems:
		if _, list := args[0].(traits.Lister); !list {
			cost += weight(args[0]) // the names of an object are sorted
		}
	default:
		cost += weight(result)
		for _, arg := range args {
			cost += weight(arg)
		}
	}
	return &cost
}

// weight returns the size of a value, without the content of its items.
func weight(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)) / bytesOfCost
	case traits.Lister:
		if n, ok := v.Size().(types.Int); ok {
			return uint64(n)
		}
	case object:
		return uint64(len(v))
	case recipient:
		return uint64(len(v.object))
	}
	return 0
}

// compareCost returns an upper bound of the cost of comparing two values, which reads at most the smaller one.
func compareCost(a, b ref.Val) uint64 {
	if !composite(b) && (composite(a) || weight(b) < weight(a)) {
		a, b = b, a
	}
	if !composite(a) {
		return weight(plain(a))
	}
	most := deepWeight(a, CostLimit)
	return most + deepWeight(b, most)
}

// composite reports whether a value has items or fields.
func composite(v ref.Val) bool {
	switch plain(v).(type) {
	case traits.Lister, object, recipient:
		return true
	}
	return false
}

// containedCost returns an upper bound of the cost of finding a value in a list.
func containedCost(x, in ref.Val) uint64 {
	list, ok := in.(traits.Lister)
	if !ok {
		return weight(x)
	}
	n := weight(list)
	return n + deepWeight(list, n*(1+deepWeight(x, CostLimit)))
}

// deepWeight returns the size of a value with its whole content. It stops at a larger number than most.
func deepWeight(v ref.Val, most uint64) uint64 {
	total := 1 + weight(plain(v))
	switch v := plain(v).(type) {
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True && total <= most; {
			total += deepWeight(it.Next(), most-total)
		}
	case object:
		for name, field := range v {
			if total > most {
				break
			}
			total += uint64(len(name))/bytesOfCost + deepWeight(adapt(field), most-total)
		}
	case recipient:
		return deepWeight(v.object, most)
	}
	return min(total, most+1)
}

func refusedCost(given ref.Val) uint64 {
	text, ok := plain(given).(types.String)
	if !ok || len(text) > maxPattern {
		return 0
	}
	if cost := parseCost(string(text)); cost <= CostLimit {
		return cost
	}
	return 0
}
