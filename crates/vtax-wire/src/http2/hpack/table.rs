//! The tables of fields (RFC 7541 section 2.3).

use std::collections::VecDeque;

use super::FIELD_OVERHEAD;

/// The static table (appendix A); the first has index 1.
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The dynamic table: a queue of fields, the newest of which has the lowest index. Their bytes stand behind each other; those of
/// evicted ones are given up once they are as many as the table may hold.
#[derive(Debug)]
pub(super) struct Table {
    bytes: Vec<u8>,
    /// Bytes that were given up before the first.
    gone: u64,
    /// The newest first.
    fields: VecDeque<Entry>,
    /// As section 4.1 counts.
    size: u32,
    most: u32,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Where its name begins, counted with those that were given up; its value follows.
    at: u64,
    name: u32,
    value: u32,
}

impl Entry {
    const fn size(self) -> u32 {
        self.name + self.value + FIELD_OVERHEAD
    }
}

impl Table {
    /// An empty one of at most so many bytes.
    pub(super) fn new(most: u32) -> Self {
        Self { bytes: Vec::new(), gone: 0, fields: VecDeque::new(), size: 0, most }
    }

    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    /// It may hold so many bytes from now on.
    pub(super) fn resize(&mut self, most: u32) {
        self.most = most;
        self.evict(0);
    }

    /// The field at an index of both tables together.
    pub(super) fn get(&self, index: u32) -> Option<(&[u8], &[u8])> {
        let index = usize::try_from(index).ok()?.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.fields.get(index - STATIC.len())?;
        // What is in the table wasn't given up.
        let at = (entry.at - self.gone) as usize;
        let (name, value) = (entry.name as usize, entry.value as usize);
        Some((self.bytes.get(at..at + name)?, self.bytes.get(at + name..at + name + value)?))
    }

    /// Adds a field, whose name and value stand behind each other. One that is larger than the table leaves it empty (section 4.4).
    pub(super) fn insert(&mut self, field: &[u8], name: usize) {
        // Fields come from blocks, which are shorter than 4 GiB.
        let entry = Entry {
            at: self.gone + self.bytes.len() as u64,
            name: name as u32,
            value: (field.len() - name) as u32,
        };
        let fits = entry.size() <= self.most;
        self.evict(if fits { entry.size() } else { self.most });
        if !fits {
            return;
        }
        let live = self.fields.back().map_or(self.bytes.len() as u64, |oldest| oldest.at - self.gone);
        if live >= u64::from(self.most) {
            // No more than the vector's length.
            self.bytes.drain(..live as usize);
            self.gone += live;
        }
        self.bytes.extend_from_slice(field);
        self.size += entry.size();
        self.fields.push_front(entry);
    }

    /// Makes room for so many bytes.
    fn evict(&mut self, room: u32) {
        let most = self.most.saturating_sub(room);
        while self.size > most {
            let Some(oldest) = self.fields.pop_back() else { return };
            self.size -= oldest.size();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leave_and_the_bytes_stay_few() {
        let mut table = Table::new(100);
        for number in 0_u32..1000 {
            table.insert(format!("name{number}").as_bytes(), 4);
            assert!(table.size() <= 100 && table.bytes.len() <= 300, "{}", table.bytes.len());
            assert_eq!(table.get(62), Some((&b"name"[..], number.to_string().as_bytes())));
        }
        assert_eq!(table.get(63), Some((&b"name"[..], &b"998"[..])));
        assert_eq!(table.get(64), None);
        assert_eq!(table.get(0), None);
        table.insert(&[b'x'; 200], 100);
        assert_eq!((table.size(), table.get(62)), (0, None));
        table.insert(b"ab", 1);
        table.resize(0);
        assert_eq!((table.size(), table.get(62)), (0, None));
    }
}
