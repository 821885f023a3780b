//! Numbers as digits.

/// Appends a number in decimal digits.
pub fn decimal(out: &mut Vec<u8>, mut value: u32) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
