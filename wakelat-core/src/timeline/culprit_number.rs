//! Culprits by number, so that tables find what they know of a culprit without a hash function.

use super::component::{Actor, Component, Culprit, UnknownReason};

/// The number of a culprit, small enough for an index. Culprits with equal keys have the same number, others have
/// different ones, until [`super::occupants::Occupants::renumber`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CulpritNumber(u32);

/// Components and reasons have the numbers below this.
const FIXED: u32 = (Component::ALL.len() + UnknownReason::ALL.len()) as u32;

/// The components that the same occupant of a CPU can cause.
const COMPONENTS_PER_ACTOR: u32 = 4;

impl CulpritNumber {
    /// The number of a culprit whose actor has the number `actor` among the occupants of CPUs. A culprit that is no
    /// occupant has a number of its own, whatever `actor`: a component has at most one such culprit in each wait.
    pub fn of(culprit: &Culprit, actor: u32) -> Self {
        Self(match culprit.actor {
            Actor::Cgroup(_) | Actor::NoActor => culprit.component as u32,
            Actor::Unknown(why) => Component::ALL.len() as u32 + why as u32,
            Actor::Task(_) | Actor::Idle(_) | Actor::Interrupt(_) => {
                let component = match culprit.component {
                    Component::Higher => 1,
                    Component::Lower => 2,
                    Component::RtThrottled => 3,
                    _ => 0,
                };
                FIXED + COMPONENTS_PER_ACTOR * actor + component
            }
        })
    }

    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
