//! Which capabilities to keep, and how to drop the others for good.

use anyhow::{Context as _, Result};
use rustix::{
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, remove_capability_from_bounding_set,
        set_capabilities, set_no_new_privs,
    },
};

use super::kernel_calls;

const FAILED: &str = "cannot drop capabilities";

/// The capabilities that this process keeps if it needs `wanted`: those that it has, and `CAP_BPF` (or, instead of it,
/// `CAP_SYS_ADMIN`) if the kernel refuses every `bpf(2)` without it. Drops nothing.
///
/// Before 5.19, `kernel.unprivileged_bpf_disabled` closes every command of `bpf(2)` to processes without `CAP_BPF`; since
/// then only those that create maps and load programs (`__sys_bpf()`, kernel/bpf/syscall.c, c8644cd0efe7).
pub fn kept(wanted: CapabilitySet) -> Result<CapabilitySet> {
    let has = capabilities(None).context("cannot read the capabilities of this process")?;
    let none = CapabilitySets { effective: CapabilitySet::empty(), ..has };
    set_capabilities(None, none).context(FAILED)?;
    let needs_bpf = kernel_calls::refuses_map_lookups();
    set_capabilities(None, has).context("cannot restore the capabilities of this process")?;
    let wanted = if needs_bpf { wanted | CapabilitySet::BPF } else { wanted };
    Ok(available(wanted, has.permitted))
}

/// Those of `wanted` that are in `permitted`, with `CAP_SYS_ADMIN` in place of those that it includes
/// (include/linux/capability.h).
fn available(wanted: CapabilitySet, permitted: CapabilitySet) -> CapabilitySet {
    let included = CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::CHECKPOINT_RESTORE;
    let substitute =
        if ((wanted & included) - permitted).is_empty() { CapabilitySet::empty() } else { CapabilitySet::SYS_ADMIN };
    (wanted | substitute) & permitted
}

/// Makes it impossible to gain capabilities: by running a program, and from the bounding and ambient sets.
pub fn deny_new() -> Result<()> {
    deny_new_but(CapabilitySet::empty())?;
    clear_ambient_capability_set().context("cannot clear the ambient set of capabilities")
}

/// Keeps only those of `wanted` that this process has, also in programs that it starts. Returns them.
pub fn pass_on(wanted: CapabilitySet) -> Result<CapabilitySet> {
    let has = capabilities(None).context("cannot read the capabilities of this process")?;
    let kept = available(wanted, has.permitted);
    deny_new_but(kept)?;
    // The kernel removes from the ambient set what is not inheritable any more (capabilities(7)).
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: has.inheritable & kept };
    set_capabilities(None, sets).context(FAILED)?;
    Ok(kept)
}

fn deny_new_but(kept: CapabilitySet) -> Result<()> {
    for capability in (CapabilitySet::all() - kept).iter() {
        match remove_capability_from_bounding_set(capability) {
            // Without CAP_SETPCAP. Then `no_new_privs` has to be enough. The kernel does not know every capability.
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(error) => return Err(error).context("cannot clear the bounding set of capabilities"),
        }
    }
    set_no_new_privs(true).context("cannot set `no_new_privs`")
}

/// Keeps only these capabilities.
pub fn drop_all_but(kept: CapabilitySet) -> Result<()> {
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).context(FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wanted_and_permitted_is_kept() {
        let (bpf, perfmon, kill) = (CapabilitySet::BPF, CapabilitySet::PERFMON, CapabilitySet::KILL);
        assert_eq!(available(bpf, CapabilitySet::all()), bpf);
        assert_eq!(available(bpf | kill, bpf | perfmon), bpf);
        assert_eq!(available(CapabilitySet::empty(), CapabilitySet::all()), CapabilitySet::empty());
    }

    #[test]
    fn a_process_that_has_only_cap_sys_admin_keeps_it_in_place_of_the_newer_ones() {
        let admin = CapabilitySet::SYS_ADMIN;
        assert_eq!(available(CapabilitySet::BPF, admin | CapabilitySet::KILL), admin);
        assert_eq!(available(CapabilitySet::KILL, admin), CapabilitySet::empty());
    }
}
