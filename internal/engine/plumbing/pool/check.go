package pool

import "errors"

// WrongSetting is an error that says which setting of a provider is wrong.
type WrongSetting interface {
	error
	Name() string // of the setting
}

// Check is how definitions are checked by a provider's check of settings; nil stays nil. E is the provider's own error.
func Check[E WrongSetting](check func(settings map[string]string) error) func(settings map[string]string) (string, error) {
	if check == nil {
		return nil
	}
	return func(settings map[string]string) (string, error) {
		err := check(settings)
		var wrong E
		if errors.As(err, &wrong) {
			return wrong.Name(), err
		}
		return "", err
	}
}
