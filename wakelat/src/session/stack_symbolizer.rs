//! The stacks of `why`: addresses from the BPF maps, and function names from the kernel's symbols and from
//! processes.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
};

use wakelat_common::stack::StackBudget;

use super::{clock::monotonic_ns, stack_numbers::StackNumbers};
use crate::collect;
use wakelat_core::{
    hash::HashSet,
    timeline::{
        stack_event::{StackEvent, StackId},
        stack_frames::{NoSymbols, StackCounts, StackFrames, Symbolize},
    },
    why::stacks::WaitStacks,
};
use wakelat_kernel::{
    kernel_symbols::{KernelSymbolFiles, KernelSymbols},
    user_symbols::{CodeLocation, UserSymbolizer},
};

/// Number of user stacks from which on they are looked up again: processes come and go.
const MAX_USER_STACKS: usize = 1 << 16;

/// Converts stacks to function names. Each stack is looked up once, by the number that [`Self::numbered`] gives it. As
/// long as no stack is removed, that is its ID in the map.
pub struct StackSymbolizer {
    stacks: collect::StackMaps,
    kernel_numbers: StackNumbers,
    user_numbers: StackNumbers,
    /// Addresses of removed stacks that may still have to be symbolized, by number.
    removed_kernel: HashMap<u32, Vec<u64>>,
    removed_user: HashMap<u32, Vec<u64>>,
    /// A stack was lost because a map had no room, since the last call of [`Self::remove_unused`].
    has_lost: bool,
    /// Stacks that were removed before their events were read, since the start.
    removed_too_early: u64,
    before: StackCounts,
    symbol_files: KernelSymbolFiles,
    kernel_symbols: OnceCell<KernelSymbols>,
    user_symbolizer: UserSymbolizer,
    /// Code locations of the user stacks of the longest waits, recorded at once, because the processes may
    /// end before the report.
    locations: HashMap<(u32, u32), Vec<CodeLocation>>,
    kernel: RefCell<HashMap<u32, StackFrames>>,
    user: RefCell<HashMap<(u32, u32), StackFrames>>,
}

impl StackSymbolizer {
    /// A symbolizer for `stacks`, with nothing looked up yet. Call this as long as the process may see addresses of the
    /// kernel.
    pub fn new(stacks: collect::StackMaps) -> Self {
        Self {
            stacks,
            kernel_numbers: StackNumbers::default(),
            user_numbers: StackNumbers::default(),
            removed_kernel: HashMap::new(),
            removed_user: HashMap::new(),
            has_lost: false,
            removed_too_early: 0,
            before: StackCounts::default(),
            symbol_files: KernelSymbolFiles::open(),
            kernel_symbols: OnceCell::new(),
            user_symbolizer: UserSymbolizer::default(),
            locations: HashMap::new(),
            kernel: RefCell::default(),
            user: RefCell::default(),
        }
    }

    /// Reads the kernel's symbols now, not with the first stack: it takes a tenth of a second, in which events may be lost.
    pub fn read_kernel_symbols(&self) {
        self.kernel_symbols();
    }

    fn kernel_symbols(&self) -> &KernelSymbols {
        self.kernel_symbols.get_or_init(|| self.symbol_files.read())
    }

    /// Records the code locations of both tasks of a wait that is one of the longest.
    pub fn record_locations(&mut self, stacks: &WaitStacks) {
        for stack in stacks.known() {
            let StackEvent { by_pid: pid, user: StackId::Id(number), .. } = stack else { continue };
            if self.locations.contains_key(&(pid, number)) {
                continue;
            }
            let addresses = self.in_user(number).unwrap_or_default();
            let calls: Vec<u64> = calls(&addresses).collect();
            if let Some(locations) = self.user_symbolizer.locations(pid, &calls) {
                self.locations.insert((pid, number), locations);
            }
        }
    }

    /// `event` with numbers in place of the IDs of its stacks, which other stacks can have after
    /// [`Self::remove_unused`].
    pub fn numbered(&mut self, event: &StackEvent) -> StackEvent {
        let Self { stacks, kernel_numbers, user_numbers, removed_too_early, .. } = self;
        let mut number = |numbers: &mut StackNumbers, stack: StackId, addresses: &dyn Fn(u32) -> Option<Vec<u64>>| {
            let StackId::Id(id) = stack else { return stack };
            let number = numbers.number(id, event.at_ns, || addresses(id).as_deref().map(hash));
            *removed_too_early += u64::from(number.is_none());
            number.map_or(StackId::MapFull, StackId::Id)
        };
        let kernel = number(kernel_numbers, event.kernel, &|id| stacks.in_kernel(id));
        let user = number(user_numbers, event.user, &|id| stacks.in_user(id));
        self.has_lost |= [kernel, user].contains(&StackId::MapFull);
        StackEvent { kernel, user, ..*event }
    }

    /// Removes stacks from the maps that no task has had for a while, if room is short or a stack was lost because
    /// there was none. Call this a few times a second, when the events so far have been read. `visit_needed` passes
    /// the stacks that may be symbolized later to its argument, by number: their addresses are kept.
    pub fn remove_unused(&mut self, visit_needed: impl FnOnce(&mut dyn FnMut(StackId, StackId))) {
        let Self { stacks, kernel_numbers, user_numbers, removed_kernel, removed_user, kernel, user, .. } = self;
        let has_lost = std::mem::take(&mut self.has_lost);
        if !kernel_numbers.is_room_short(has_lost) && !user_numbers.is_room_short(has_lost) {
            return;
        }
        let (mut needed_kernel, mut needed_user) = (HashSet::default(), HashSet::default());
        visit_needed(&mut |kernel: StackId, user: StackId| {
            for (needed, stack) in [(&mut needed_kernel, kernel), (&mut needed_user, user)] {
                if let StackId::Id(number) = stack {
                    needed.insert(number);
                }
            }
        });
        kernel_numbers.remove_unused(has_lost, monotonic_ns, |id, number| {
            let known = number.and_then(|number| Some((number, stacks.in_kernel(id)?)));
            let hash = known.as_ref().map_or(0, |(_, addresses)| hash(addresses));
            removed_kernel.extend(known.filter(|(number, _)| needed_kernel.contains(number)));
            stacks.remove_kernel(id).then_some(hash)
        });
        user_numbers.remove_unused(has_lost, monotonic_ns, |id, number| {
            let known = number.and_then(|number| Some((number, stacks.in_user(id)?)));
            let hash = known.as_ref().map_or(0, |(_, addresses)| hash(addresses));
            removed_user.extend(known.filter(|(number, _)| needed_user.contains(number)));
            stacks.remove_user(id).then_some(hash)
        });
        let is_kernel_known = |number: &u32| kernel_numbers.is_kept(*number) || needed_kernel.contains(number);
        let is_user_known = |number: &u32| user_numbers.is_kept(*number) || needed_user.contains(number);
        removed_kernel.retain(|number, _| needed_kernel.contains(number));
        removed_user.retain(|number, _| needed_user.contains(number));
        kernel.get_mut().retain(|number, _| is_kernel_known(number));
        user.get_mut().retain(|(_, number), _| is_user_known(number));
        self.locations.retain(|(_, number), _| is_user_known(number));
    }

    /// The addresses of a kernel stack, innermost first; `None` if they are not known.
    fn in_kernel(&self, number: u32) -> Option<Vec<u64>> {
        if self.kernel_numbers.is_kept(number) {
            return self.stacks.in_kernel(StackNumbers::id(number));
        }
        self.removed_kernel.get(&number).cloned()
    }

    /// The addresses of a user stack, innermost first; `None` if they are not known.
    fn in_user(&self, number: u32) -> Option<Vec<u64>> {
        if self.user_numbers.is_kept(number) {
            return self.stacks.in_user(StackNumbers::id(number));
        }
        self.removed_user.get(&number).cloned()
    }

    /// Counts the stacks that were taken or missed since the last call.
    ///
    /// # Errors
    /// If the kernel refuses to read the map.
    pub fn counts(&mut self) -> io::Result<StackCounts> {
        let budgets = self.stacks.budgets()?;
        let sum = |count: fn(&StackBudget) -> u64| budgets.iter().map(count).sum();
        let now = StackCounts {
            attempts: sum(|budget| budget.attempts),
            over_budget: sum(|budget| budget.over_budget),
            no_room: sum(|budget| budget.map_full) + self.removed_too_early,
            no_kernel: sum(|budget| budget.no_kernel),
            no_user: sum(|budget| budget.no_user),
            given_up: 0,
        };
        let before = std::mem::replace(&mut self.before, now);
        Ok(now.since(&before))
    }

    fn look_up_kernel(&self, number: u32) -> StackFrames {
        let Some(addresses) = self.in_kernel(number) else { return StackFrames::Missing(StackId::Missing) };
        let symbols = self.kernel_symbols();
        if symbols.is_empty() {
            return StackFrames::Unsymbolized(hex(&addresses), NoSymbols::Restricted);
        }
        let name = |address| symbols.name_of(address).map_or_else(|| format!("{address:#x}"), str::to_owned);
        let names: Vec<String> = calls(&addresses).map(name).collect();
        StackFrames::Named(without_instrument(names))
    }

    fn look_up_user(&self, pid: u32, number: u32) -> StackFrames {
        let Some(addresses) = self.in_user(number) else { return StackFrames::Missing(StackId::Missing) };
        let calls: Vec<u64> = calls(&addresses).collect();
        if let Some(names) = self.user_symbolizer.names(pid, &calls) {
            return StackFrames::Named(names);
        }
        let names = self.locations.get(&(pid, number)).map(|found| self.user_symbolizer.names_of_locations(found));
        StackFrames::Unsymbolized(names.unwrap_or_else(|| hex(&addresses)), NoSymbols::ProcessExited)
    }
}

impl Symbolize for StackSymbolizer {
    fn kernel(&self, trace: StackId) -> StackFrames {
        let StackId::Id(number) = trace else { return StackFrames::Missing(trace) };
        self.kernel.borrow_mut().entry(number).or_insert_with(|| self.look_up_kernel(number)).clone()
    }

    fn user(&self, pid: u32, trace: StackId) -> StackFrames {
        let StackId::Id(number) = trace else { return StackFrames::Missing(trace) };
        let mut user = self.user.borrow_mut();
        if user.len() >= MAX_USER_STACKS && !user.contains_key(&(pid, number)) {
            user.clear();
        }
        user.entry((pid, number)).or_insert_with(|| self.look_up_user(pid, number)).clone()
    }
}

/// The addresses of the calls. All addresses except the innermost are return addresses, and the call may have
/// been the last instruction of its function: 1 is subtracted.
fn calls(addresses: &[u64]) -> impl Iterator<Item = u64> {
    addresses.iter().enumerate().map(|(index, address)| if index == 0 { *address } else { address.saturating_sub(1) })
}

/// The hash by which a stack is recognized when it occurs again.
fn hash(addresses: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    addresses.hash(&mut hasher);
    hasher.finish()
}

fn hex(addresses: &[u64]) -> Vec<String> {
    addresses.iter().map(|address| format!("{address:#x}")).collect()
}

/// Removes wakelat's own frames, which are the innermost: the program, and the calls of the tracepoint
/// (include/trace/bpf_probe.h, include/linux/tracepoint.h).
fn without_instrument(mut names: Vec<String>) -> Vec<String> {
    /// The program, its callers, and some more.
    const INNERMOST: usize = 8;
    let is_ours = |name: &String| {
        ["bpf_prog_", "bpf_trampoline_", "bpf_trace_run", "__bpf_trace_", "__traceiter_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    let ours = names.iter().take(INNERMOST).rposition(is_ours).map_or(0, |last| last + 1);
    names.drain(..ours);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn wakelats_own_frames_are_removed() {
        let taken = ["bpf_prog_6deef7357e7b4530_turn", "bpf_trace_run4", "__traceiter_sched_switch", "__schedule"];
        assert_eq!(without_instrument(names(&taken)), ["__schedule"]);
        // The program has no name if the kernel hides those of programs.
        let nameless = ["0xffffffffc0123456", "__bpf_trace_sched_waking", "try_to_wake_up", "wake_up_q"];
        assert_eq!(without_instrument(names(&nameless)), ["try_to_wake_up", "wake_up_q"]);
        assert_eq!(without_instrument(names(&["schedule"])), ["schedule"]);
    }

    #[test]
    fn a_return_address_is_mapped_to_its_call() {
        assert_eq!(calls(&[0x10, 0x20, 0x30]).collect::<Vec<_>>(), [0x10, 0x1f, 0x2f]);
    }
}
