package definition

// ProviderInfo says which settings a provider of channels or of sinks takes.
type ProviderInfo struct {
	Name      string
	Settings  []SettingInfo
	Kinds     []string // of channels that it serves; nil: all
	Forgetful bool     // of channels: it has no idempotency keys, so that the default of on_unknown is hold
	Verifies  []string // of channels: the settings that on_unknown: verify needs; nil: the provider cannot
	// Check checks the literal settings; the value of a reference is empty. It returns which setting is wrong, if it is a single one, and
	// why, without repeating a value. nil: nothing is checked.
	Check func(settings map[string]string) (setting string, err error)
}

// SettingInfo is one setting of a provider.
type SettingInfo struct {
	Name     string
	Required bool
	Secret   bool // must be {secret: NAME}, {env: NAME} or {file: PATH}
	Free     bool // it affects only the message: it decides neither where a secret goes nor how it is protected
}
