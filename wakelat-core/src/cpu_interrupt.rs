//! Interrupts of a CPU's own, by name: no setting moves them to another CPU.

/// Their names in the kernel's events: as vectors on x86 (`trace_irq_vectors`, arch/x86/kernel/trace.c), and as the names
/// of handlers on arm64 (`arch_timer_register`, drivers/clocksource/arm_arch_timer.c; `set_smp_ipi_range`,
/// arch/arm64/kernel/smp.c).
const NAMES: [&str; 13] = [
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "x86_platform_ipi",
    "thermal_apic",
    "threshold_apic",
    "deferred_error",
    "error_apic",
    "spurious_apic",
    "arch_timer",
    "IPI",
];

/// Whether an interrupt of this name is that of a CPU, and not that of a device.
pub fn is_of_a_cpu(name: &str) -> bool {
    NAMES.contains(&name)
}
