//! Numbers with a prefix (RFC 7541 section 5.1).

use super::HpackError;

/// Reads a number whose first byte has `prefix` bits of it, 1 to 8; the number and the bytes it takes.
pub(super) fn read(input: &[u8], prefix: u32) -> Result<(u32, usize), HpackError> {
    let mask = u32::from(u8::MAX >> (8 - prefix));
    let mut number = u32::from(*input.first().ok_or(HpackError::Short)?) & mask;
    if number < mask {
        return Ok((number, 1));
    }
    for (at, byte) in input.iter().enumerate().skip(1) {
        // Five bytes hold 35 bits, more than any number here needs; leading zeros beyond are refused too.
        let shift = 7 * (at as u32 - 1);
        let part = u32::from(byte & 0x7f);
        if shift > 28 || part > u32::MAX >> shift {
            return Err(HpackError::Number);
        }
        number = number.checked_add(part << shift).ok_or(HpackError::Number)?;
        if byte & 0x80 == 0 {
            return Ok((number, at + 1));
        }
    }
    Err(HpackError::Short)
}

/// Appends a number with so many bits in its first byte, whose other bits are `first`.
pub(super) fn write(number: u32, prefix: u32, first: u8, out: &mut Vec<u8>) {
    let mask = u8::MAX >> (8 - prefix);
    if number < u32::from(mask) {
        // Smaller than eight bits.
        out.push(first | number as u8);
        return;
    }
    out.push(first | mask);
    let mut rest = number - u32::from(mask);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541 appendix C.1.
    #[test]
    fn numbers_of_the_standard_are_read_and_written() {
        for (number, prefix, bytes) in
            [(10, 5, &[0x0a][..]), (1337, 5, &[0x1f, 0x9a, 0x0a][..]), (42, 8, &[0x2a][..])]
        {
            let mut out = Vec::new();
            write(number, prefix, 0, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(read(bytes, prefix), Ok((number, bytes.len())));
        }
    }

    #[test]
    fn numbers_are_bounded() {
        let mut out = Vec::new();
        write(u32::MAX, 5, 0xe0, &mut out);
        assert_eq!(read(&out, 5), Ok((u32::MAX, out.len())));
        assert_eq!(read(&[0x1f, 0xff, 0xff, 0xff, 0xff, 0x7f], 5), Err(HpackError::Number));
        assert_eq!(read(&[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0], 5), Err(HpackError::Number));
        assert_eq!(read(&[0x1f, 0x80], 5), Err(HpackError::Short));
        assert_eq!(read(&[], 5), Err(HpackError::Short));
    }
}
