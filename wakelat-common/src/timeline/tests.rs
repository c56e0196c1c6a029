use super::*;

#[test]
fn unseen_switches_are_counted_from_the_kernels_switch_count() {
    let mut here = CpuState::default();
    let unseen = [7, 8, 10, 11, 0, 12, 5].map(|switches| here.count_unseen(switches));
    assert_eq!(unseen, [UNSEEN_UNKNOWN, 0, 1, 0, UNSEEN_UNKNOWN, UNSEEN_UNKNOWN, UNSEEN_UNKNOWN]);
}

#[test]
fn a_prev_state_survives_encoding_and_decoding() {
    for prev_state in [PrevState::Runnable, PrevState::PreemptedSleeping, PrevState::Sleeping, PrevState::Dead] {
        assert_eq!(prev_state_from_u8(prev_state_to_u8(prev_state)), Some(prev_state));
    }
    assert_eq!(prev_state_from_u8(4), None);
}
