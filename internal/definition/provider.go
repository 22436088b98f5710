package definition

// ProviderInfo says which settings a provider of channels or of sinks takes.
type ProviderInfo struct {
	Name     string
	Settings []SettingInfo
	Verifies []string // of channels: the settings that on_unknown: verify needs; nil: the provider cannot
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
