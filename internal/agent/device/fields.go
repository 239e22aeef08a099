package device

// Field is one number that devices report.
type Field int

// The fields, with their units.
const (
	Utilization           Field = iota // percent of time in which a kernel ran
	MemoryUtilization                  // percent of time in which memory was read or written
	EncoderUtilization                 // percent
	DecoderUtilization                 // percent
	MemoryUsed                         // MiB
	MemoryFree                         // MiB
	MemoryReserved                     // MiB, by the driver
	Temperature                        // degrees Celsius
	MemoryTemperature                  // degrees Celsius
	Power                              // watts
	PowerLimit                         // watts
	Energy                             // millijoules since the driver was loaded
	SMClock                            // MHz
	MemoryClock                        // MHz
	PCIeReplays                        // count
	PCIeGeneration                     // now
	PCIeLanes                          // now
	NVLinkBandwidth                    // bytes moved, all links together, both ways; a counter
	NVLinkErrors                       // CRC, replay and recovery errors of all links, count
	NVLinksActive                      // links that are up
	ECCCorrected                       // volatile, count
	ECCUncorrected                     // volatile, count
	ECCCorrectedTotal                  // aggregate, count
	ECCUncorrectedTotal                // aggregate, count
	RetiredPagesSingle                 // count
	RetiredPagesDouble                 // count
	RetiredPagesPending                // 0 or 1
	RemappedCorrectable                // rows
	RemappedUncorrectable              // rows
	RemapPending                       // 0 or 1
	RemapFailed                        // 0 or 1
	ClockEventReasons                  // NVML's bit mask
	LastXID                            // number of the last XID error, 0 for none; kept by the agent
	fieldCount
)

// Fields lists all of them.
func Fields() []Field {
	out := make([]Field, fieldCount)
	for i := range out {
		out[i] = Field(i)
	}
	return out
}
