//! Comparisons and choices without branches, for loops in programs: the verifier follows each way through a loop for as
//! long as values differ in what it knows about them, which would be several times as many ways with each round.

/// The same value, of which the verifier knows nothing any more. `zero` is 0, which only the compiler and the verifier do
/// not know.
#[inline(always)]
pub const fn forget(value: u64, zero: u64) -> u64 {
    value ^ zero
}

/// All ones if `a` is less than `b`, otherwise 0, for numbers below 2^63. `zero`: see [`forget`]; it also keeps the compiler
/// from making a branch.
#[inline(always)]
pub const fn is_less(a: u64, b: u64, zero: u64) -> u64 {
    forget((forget(a.wrapping_sub(b), zero) as i64 >> 63) as u64, zero)
}

/// All ones if `value` is not 0, otherwise 0. `zero`: see [`is_less`].
#[inline(always)]
pub const fn is_some(value: u64, zero: u64) -> u64 {
    forget(((value | zero.wrapping_sub(value)) as i64 >> 63) as u64, zero)
}

/// `one` if `mask` is all ones, `otherwise` if it is 0.
#[inline(always)]
pub const fn choose(mask: u64, one: u64, otherwise: u64) -> u64 {
    otherwise ^ (otherwise ^ one) & mask
}

/// The smaller one of two numbers below 2^63. `zero`: see [`is_less`].
#[inline(always)]
pub const fn smaller(a: u64, b: u64, zero: u64) -> u64 {
    choose(is_less(a, b, zero), a, b)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_is_what_a_branch_would_give(a in 0..1u64 << 63, b in prop_oneof![0..1u64 << 63, 0..2u64], any in any::<u64>()) {
            let mask = |is| if is { u64::MAX } else { 0 };
            prop_assert_eq!(is_less(a, b, 0), mask(a < b));
            prop_assert_eq!(is_less(a, a, 0), 0);
            prop_assert_eq!(smaller(a, b, 0), a.min(b));
            prop_assert_eq!((is_some(any, 0), is_some(b, 0), is_some(0, 0)), (mask(any != 0), mask(b != 0), 0));
            prop_assert_eq!((choose(u64::MAX, a, b), choose(0, a, b)), (a, b));
        }
    }
}
