use super::*;

#[test]
fn a_prev_state_survives_encoding_and_decoding() {
    for prev_state in [PrevState::Runnable, PrevState::PreemptedSleeping, PrevState::Sleeping, PrevState::Dead] {
        assert_eq!(prev_state_from_u8(prev_state_to_u8(prev_state)), Some(prev_state));
    }
    assert_eq!(prev_state_from_u8(4), None);
}
