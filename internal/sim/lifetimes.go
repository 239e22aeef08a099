package sim

func timed(t *Trace, config *Config, policy string, seed uint64, progress func(part float64)) (*run, error) {
	panic("later")
}
