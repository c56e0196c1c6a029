//! The Debian packages that setup installs, each list with its reason.

/// A rustc that compiles for BPF although it is not a nightly, and its `core` for BPF.
pub const COMPILER_PACKAGES: &[&str] = &["rustc-web", "libstd-rust-web-dev-bpf"];

/// What building bpf-linker needs, besides the C compiler, which cargo has already used to link xtask.
pub const LINKER_PACKAGES: &[&str] = &["llvm-22-dev"];

/// Independent tools that tests compare wakelat's figures with.
pub const TEST_PACKAGES: &[&str] = &["linux-perf", "libbpf-tools", PROMETHEUS];

/// It scrapes `wakelat serve` in the tests, which start it themselves. Debian's package starts it as a service.
pub const PROMETHEUS: &str = "prometheus";

/// The compiler and the C library for `cargo xtask dist --arch` on another architecture, by Debian's name of it.
pub fn cross_compiler(debian_architecture: &str) -> &'static [&'static str] {
    match debian_architecture {
        "arm64" => &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
        "amd64" => &["gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"],
        _ => &[],
    }
}

/// Every package that setup may install.
pub fn all() -> impl Iterator<Item = &'static str> {
    [COMPILER_PACKAGES, LINKER_PACKAGES, TEST_PACKAGES].concat().into_iter()
}
