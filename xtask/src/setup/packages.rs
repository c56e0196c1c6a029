//! The Debian packages that setup installs, each list with its reason.

use wakelat_build::Architecture;

/// A rustc that compiles for BPF although it is not a nightly, and its `core` for BPF.
pub const COMPILER_PACKAGES: &[&str] = &["rustc-web", "libstd-rust-web-dev-bpf"];

/// What building bpf-linker needs, besides the C compiler, which cargo has already used to link xtask.
pub const LINKER_PACKAGES: &[&str] = &["llvm-22-dev"];

/// Independent tools that tests compare wakelat's figures with, a browser, a terminal, and a load.
const TEST_PACKAGES: &[&str] = &["linux-perf", "libbpf-tools", PROMETHEUS, "chromium", "tmux", "stress-ng"];

/// It scrapes `wakelat serve` in the tests, which start it themselves. Debian's package starts it as a service.
pub const PROMETHEUS: &str = "prometheus";

/// The compiler and the C library that build programs for `architecture` on a machine of another one: for guests of
/// `cargo xtask vm` and for `cargo xtask dist --arch`.
pub const fn cross_compiler(architecture: Architecture) -> &'static [&'static str] {
    match architecture {
        Architecture::Aarch64 => &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
        Architecture::X86_64 => &["gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"],
    }
}

/// Everything that only tests need.
pub fn for_tests() -> Vec<&'static str> {
    let cross_compilers = Architecture::foreign().flat_map(cross_compiler);
    TEST_PACKAGES.iter().chain(cross_compilers).copied().collect()
}

/// Every package that setup may install.
pub fn all() -> impl Iterator<Item = &'static str> {
    [COMPILER_PACKAGES, LINKER_PACKAGES, &for_tests()].concat().into_iter()
}
