//! The processors that the kernel left offline at boot, as requested.

use std::{
    fs, hint,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

const PROCESSORS: &str = "/sys/devices/system/cpu";

/// Brings them online, and returns an error for each that fails.
///
/// Up to 6.4 the kernel waits for a new processor in a loop around `schedule()` (`do_boot_cpu`,
/// arch/x86/kernel/smpboot.c). An emulator with one thread that counts instructions leaves a processor
/// only when it pauses or halts, so the new one would never run: a runnable thread that executes
/// `pause` prevents that.
pub fn start_all() -> Vec<String> {
    let left_out = left_out();
    if left_out.is_empty() {
        return Vec::new();
    }
    let started = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !started.load(Relaxed) {
                hint::spin_loop();
            }
        });
        let problems = left_out.iter().filter_map(|file| start(file).err()).collect();
        started.store(true, Relaxed);
        problems
    })
}

fn left_out() -> Vec<PathBuf> {
    let entries = fs::read_dir(PROCESSORS).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path().join("online"));
    files.filter(|file| fs::read_to_string(file).is_ok_and(|online| online.trim_end() == "0")).collect()
}

fn start(file: &Path) -> Result<(), String> {
    fs::write(file, "1").map_err(|error| format!("cannot start a processor by `{}`: {error}", file.display()))
}
