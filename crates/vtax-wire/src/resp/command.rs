//! Commands, as arrays of bulk strings.

/// Digits of the longest length written: 2^32 - 1 has ten.
const DIGITS: usize = 10;

/// Appends `GET key`.
pub fn get(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
    bulk(out, key.len(), |out| out.extend_from_slice(key));
}

/// Appends `SET key value`, where the value is the `length` bytes that `value` appends.
///
/// A value that is made of pieces goes straight to where it is sent from.
pub fn set(out: &mut Vec<u8>, key: &[u8], length: usize, value: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
    bulk(out, key.len(), |out| out.extend_from_slice(key));
    bulk(out, length, value);
}

fn bulk(out: &mut Vec<u8>, length: usize, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'$');
    number(out, length);
    out.extend_from_slice(b"\r\n");
    let start = out.len();
    fill(out);
    debug_assert_eq!(out.len() - start, length, "a bulk string is as long as its length says");
    out.extend_from_slice(b"\r\n");
}

fn number(out: &mut Vec<u8>, mut number: usize) {
    let mut digits = [0; DIGITS];
    let mut first = DIGITS;
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 || first == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_bulk_strings() {
        let mut out = Vec::new();
        get(&mut out, b"key:1");
        set(&mut out, b"k", 12, |out| {
            out.extend_from_slice(b"ab");
            out.extend_from_slice(b"cdefghijkl");
        });
        set(&mut out, b"k", 0, |_| {});
        let expected = "*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n\
                        *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\nabcdefghijkl\r\n\
                        *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
