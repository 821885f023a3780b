//! POSIX extended regular expressions (POSIX.1-2017, Base Definitions chapter 9.4), as SIPp's `ereg` has them.
//!
//! Of all matches that begin leftmost the longest is found, which engines of Perl's kind don't do: `a|ab` finds `ab`. Bytes are
//! characters. Time is the product of text and expression, whatever these are; there is no backtracking. Which part of a match belongs to
//! which group is, where that is ambiguous, what an engine of Perl's kind says for the match that was found.

/// Groups that are kept, the whole match not counted.
pub const GROUPS_MAX: usize = 9;
/// Offsets of the whole match and of each group: where it begins and ends.
const SLOTS: usize = 2 * (GROUPS_MAX + 1);
const NONE: u32 = u32::MAX;
/// Longest program; what is repeated is in it as often as it may be.
const PROGRAM_MAX: usize = 4_096;
/// Longest expression.
const EXPRESSION_MAX: usize = 1_024;
/// Deepest nesting of groups.
const DEPTH_MAX: usize = 20;
/// Most repetitions that a bound names.
const REPEAT_MAX: u32 = 1_000;

/// Why an expression is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EreError {
    /// It is longer, or deeper, or repeats more than is carried out.
    #[error("the regular expression is too large")]
    TooLarge,
    /// A group doesn't end, or ends without a beginning.
    #[error("a parenthesis has no partner")]
    Parenthesis,
    /// A bracket expression doesn't end or is malformed.
    #[error("a bracket expression is malformed")]
    Bracket,
    /// There is nothing that could be repeated.
    #[error("`*`, `+`, `?` or `{{` has nothing to repeat")]
    NothingToRepeat,
    /// A bound is malformed.
    #[error("the bounds of a repetition are malformed")]
    Bounds,
    /// It ends with a backslash.
    #[error("it ends with a backslash")]
    Backslash,
    /// An escape that POSIX doesn't have, or that isn't carried out.
    #[error("`\\{0}` isn't supported in POSIX extended expressions")]
    Escape(char),
}

/// A set of bytes.
type Set = [u64; 4];

fn insert(set: &mut Set, byte: u8) {
    set[usize::from(byte >> 6)] |= 1 << (byte & 63);
}

fn contains(set: &Set, byte: u8) -> bool {
    set[usize::from(byte >> 6)] & 1 << (byte & 63) != 0
}

/// What an expression is made of.
#[derive(Debug, Clone)]
enum Node {
    Empty,
    Set(Box<Set>),
    Start,
    End,
    WordBoundary(bool),
    Sequence(Vec<Node>),
    Either(Vec<Node>),
    Repeat(Box<Node>, u32, Option<u32>),
    Group(usize, Box<Node>),
}

/// One instruction.
#[derive(Debug, Clone)]
enum Step {
    /// A byte of the set with this number.
    Set(u16),
    /// Goes on at both places; the first is preferred.
    Split(u16, u16),
    Jump(u16),
    Save(u8),
    Start,
    End,
    WordBoundary(bool),
    Match,
}

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Ere {
    program: Vec<Step>,
    sets: Vec<Set>,
    groups: usize,
}

/// Where a match and its groups are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found([u32; SLOTS]);

impl Found {
    /// The range of a group; 0 is the whole match. `None` where the group has no part in the match.
    #[must_use]
    pub fn get(&self, group: usize) -> Option<std::ops::Range<usize>> {
        let (from, to) = (*self.0.get(2 * group)?, *self.0.get(2 * group + 1)?);
        (from != NONE && to != NONE).then_some(from as usize..to as usize)
    }
}

/// Memory for matching, used again and again; it grows to the largest program it has met.
#[derive(Debug, Clone, Default)]
pub struct Matcher {
    current: Threads,
    following: Threads,
    pending: Vec<Pending>,
}

/// Threads in order of preference, each at another instruction.
#[derive(Debug, Clone, Default)]
struct Threads {
    list: Vec<(u16, [u32; SLOTS])>,
    /// By instruction: the round in which it was last entered.
    entered: Vec<u32>,
    round: u32,
}

/// What is still to be followed from an instruction.
#[derive(Debug, Clone, Copy)]
enum Pending {
    Visit(u16),
    Restore(u8, u32),
}

impl Threads {
    fn begin(&mut self, program: usize) {
        self.list.clear();
        if self.entered.len() < program {
            self.entered.resize(program, 0);
        }
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.entered.fill(0);
            self.round = 1;
        }
    }

    /// Marks an instruction; false where it was marked in this round.
    fn enter(&mut self, at: u16) -> bool {
        let entered = &mut self.entered[usize::from(at)];
        *entered != self.round && {
            *entered = self.round;
            true
        }
    }
}

impl Ere {
    /// Compiles an expression; `any_case` as with SIPp's `case_indep`.
    ///
    /// # Errors
    /// It is malformed, too large, or has what isn't carried out: references back, escapes of other dialects.
    pub fn compile(expression: &[u8], any_case: bool) -> Result<Self, EreError> {
        if expression.len() > EXPRESSION_MAX {
            return Err(EreError::TooLarge);
        }
        let mut parser = Parser { rest: expression, any_case, groups: 0, depth: 0 };
        let node = parser.either()?;
        if !parser.rest.is_empty() {
            return Err(EreError::Parenthesis);
        }
        let mut ere = Self { program: Vec::new(), sets: Vec::new(), groups: parser.groups };
        ere.push(Step::Save(0))?;
        ere.emit(&node)?;
        ere.push(Step::Save(1))?;
        ere.push(Step::Match)?;
        Ok(ere)
    }

    /// How many groups it has.
    #[must_use]
    pub const fn groups(&self) -> usize {
        self.groups
    }

    fn push(&mut self, step: Step) -> Result<u16, EreError> {
        if self.program.len() >= PROGRAM_MAX {
            return Err(EreError::TooLarge);
        }
        self.program.push(step);
        Ok(self.program.len() as u16 - 1)
    }

    fn add(&mut self, step: Step) -> Result<(), EreError> {
        self.push(step).map(|_| ())
    }

    fn here(&self) -> u16 {
        self.program.len() as u16
    }

    fn emit(&mut self, node: &Node) -> Result<(), EreError> {
        match node {
            // It has an instruction, so that what is repeated is bounded by the length of the program.
            Node::Empty => {
                let next = self.here() + 1;
                self.push(Step::Jump(next))?;
            }
            Node::Set(set) => {
                let number = match self.sets.iter().position(|own| own == &**set) {
                    Some(number) => number,
                    None => {
                        self.sets.push(**set);
                        self.sets.len() - 1
                    }
                };
                // There are fewer sets than instructions.
                self.push(Step::Set(number as u16))?;
            }
            Node::Start => self.add(Step::Start)?,
            Node::End => self.add(Step::End)?,
            Node::WordBoundary(is) => self.add(Step::WordBoundary(*is))?,
            Node::Sequence(nodes) => nodes.iter().try_for_each(|node| self.emit(node))?,
            Node::Either(nodes) => self.emit_either(nodes)?,
            Node::Repeat(node, least, most) => self.emit_repeat(node, *least, *most)?,
            Node::Group(number, node) if *number <= GROUPS_MAX => {
                self.push(Step::Save(2 * *number as u8))?;
                self.emit(node)?;
                self.push(Step::Save(2 * *number as u8 + 1))?;
            }
            Node::Group(_, node) => self.emit(node)?,
        }
        Ok(())
    }

    fn emit_either(&mut self, nodes: &[Node]) -> Result<(), EreError> {
        let mut jumps = Vec::with_capacity(nodes.len());
        for (i, node) in nodes.iter().enumerate() {
            if i + 1 == nodes.len() {
                self.emit(node)?;
                break;
            }
            let split = self.push(Step::Split(0, 0))?;
            self.emit(node)?;
            jumps.push(self.push(Step::Jump(0))?);
            self.program[usize::from(split)] = Step::Split(split + 1, self.here());
        }
        let here = self.here();
        for jump in jumps {
            self.program[usize::from(jump)] = Step::Jump(here);
        }
        Ok(())
    }

    fn emit_repeat(&mut self, node: &Node, least: u32, most: Option<u32>) -> Result<(), EreError> {
        if most == Some(0) {
            // A step as for any other: what is repeated a thousand times a thousand times is bounded by the length of the program.
            let next = self.here() + 1;
            self.push(Step::Jump(next))?;
            return Ok(());
        }
        for _ in 0..least {
            self.emit(node)?;
        }
        let Some(most) = most else {
            let split = self.push(Step::Split(0, 0))?;
            self.emit(node)?;
            self.push(Step::Jump(split))?;
            self.program[usize::from(split)] = Step::Split(split + 1, self.here());
            return Ok(());
        };
        let mut splits = Vec::new();
        for _ in least..most {
            splits.push(self.push(Step::Split(0, 0))?);
            self.emit(node)?;
        }
        let here = self.here();
        for split in splits {
            self.program[usize::from(split)] = Step::Split(split + 1, here);
        }
        Ok(())
    }

    /// The longest of the leftmost matches.
    #[must_use]
    pub fn find(&self, matcher: &mut Matcher, text: &[u8]) -> Option<Found> {
        let Matcher { current, following, pending } = matcher;
        let mut best: Option<[u32; SLOTS]> = None;
        current.begin(self.program.len());
        for at in 0..=text.len() {
            if best.is_none() {
                self.follow(current, pending, 0, [NONE; SLOTS], (text, at), &mut best);
            }
            if current.list.is_empty() {
                // Nothing is under way; something was found, or another place is tried.
                if best.is_some() {
                    break;
                }
                current.begin(self.program.len());
                continue;
            }
            following.begin(self.program.len());
            for &(step, slots) in &current.list {
                let is_later = best.is_some_and(|best| slots[0] > best[0]);
                let (Step::Set(set), Some(byte)) = (&self.program[usize::from(step)], text.get(at)) else {
                    continue;
                };
                if !is_later && contains(&self.sets[usize::from(*set)], *byte) {
                    self.follow(following, pending, step + 1, slots, (text, at + 1), &mut best);
                }
            }
            std::mem::swap(current, following);
        }
        best.map(Found)
    }

    /// Follows an instruction to all that read a byte; one that ends the match is noted where it is the best so far.
    fn follow(
        &self,
        threads: &mut Threads,
        pending: &mut Vec<Pending>,
        from: u16,
        mut slots: [u32; SLOTS],
        (text, at): (&[u8], usize),
        best: &mut Option<[u32; SLOTS]>,
    ) {
        pending.clear();
        pending.push(Pending::Visit(from));
        while let Some(next) = pending.pop() {
            let step = match next {
                Pending::Restore(slot, value) => {
                    slots[usize::from(slot)] = value;
                    continue;
                }
                Pending::Visit(step) => step,
            };
            if !threads.enter(step) {
                continue;
            }
            match &self.program[usize::from(step)] {
                Step::Set(_) => threads.list.push((step, slots)),
                Step::Jump(to) => pending.push(Pending::Visit(*to)),
                Step::Split(first, second) => {
                    pending.push(Pending::Visit(*second));
                    pending.push(Pending::Visit(*first));
                }
                Step::Save(slot) => {
                    pending.push(Pending::Restore(*slot, slots[usize::from(*slot)]));
                    slots[usize::from(*slot)] = at as u32;
                    pending.push(Pending::Visit(step + 1));
                }
                Step::Start if at == 0 => pending.push(Pending::Visit(step + 1)),
                Step::End if at == text.len() => pending.push(Pending::Visit(step + 1)),
                Step::WordBoundary(is) if is_boundary(text, at) == *is => {
                    pending.push(Pending::Visit(step + 1))
                }
                Step::Start | Step::End | Step::WordBoundary(_) => {}
                Step::Match => {
                    let better = best
                        .is_none_or(|best| slots[0] < best[0] || (slots[0] == best[0] && slots[1] > best[1]));
                    if better {
                        *best = Some(slots);
                    }
                }
            }
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_boundary(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| text.get(before)).is_some_and(|b| is_word(*b));
    before != text.get(at).is_some_and(|b| is_word(*b))
}

struct Parser<'a> {
    rest: &'a [u8],
    any_case: bool,
    groups: usize,
    depth: usize,
}

impl Parser<'_> {
    fn either(&mut self) -> Result<Node, EreError> {
        let mut branches = vec![self.sequence()?];
        while let [b'|', rest @ ..] = self.rest {
            self.rest = rest;
            branches.push(self.sequence()?);
        }
        Ok(if branches.len() == 1 { branches.remove(0) } else { Node::Either(branches) })
    }

    fn sequence(&mut self) -> Result<Node, EreError> {
        let mut nodes = Vec::new();
        loop {
            let node = match self.rest {
                [] | [b'|' | b')', ..] => break,
                _ => self.atom()?,
            };
            nodes.push(self.repeated(node)?);
        }
        Ok(match nodes.len() {
            0 => Node::Empty,
            1 => nodes.remove(0),
            _ => Node::Sequence(nodes),
        })
    }

    fn atom(&mut self) -> Result<Node, EreError> {
        let [first, rest @ ..] = self.rest else { return Ok(Node::Empty) };
        self.rest = rest;
        Ok(match first {
            b'(' => self.group()?,
            b'[' => self.bracket()?,
            b'.' => Node::Set(Box::new([u64::MAX; 4])),
            b'^' => Node::Start,
            b'$' => Node::End,
            b'*' | b'+' | b'?' => return Err(EreError::NothingToRepeat),
            b'{' if rest.first().is_some_and(u8::is_ascii_digit) => return Err(EreError::NothingToRepeat),
            b'\\' => self.escape()?,
            byte => self.byte(*byte),
        })
    }

    fn group(&mut self) -> Result<Node, EreError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(EreError::TooLarge);
        }
        self.groups += 1;
        let number = self.groups;
        let inner = self.either()?;
        let [b')', rest @ ..] = self.rest else { return Err(EreError::Parenthesis) };
        self.rest = rest;
        self.depth -= 1;
        Ok(Node::Group(number, Box::new(inner)))
    }

    fn byte(&self, byte: u8) -> Node {
        let mut set = [0; 4];
        self.put(&mut set, byte);
        Node::Set(Box::new(set))
    }

    fn put(&self, set: &mut Set, byte: u8) {
        insert(set, byte);
        if self.any_case {
            insert(set, byte.to_ascii_lowercase());
            insert(set, byte.to_ascii_uppercase());
        }
    }

    fn escape(&mut self) -> Result<Node, EreError> {
        let [escaped, rest @ ..] = self.rest else { return Err(EreError::Backslash) };
        self.rest = rest;
        let class = |is: fn(u8) -> bool, inverse: bool| {
            let mut set = [0; 4];
            (0..=u8::MAX).filter(|byte| is(*byte) != inverse).for_each(|byte| insert(&mut set, byte));
            Node::Set(Box::new(set))
        };
        Ok(match escaped {
            b'w' => class(is_word, false),
            b'W' => class(is_word, true),
            b's' => class(|byte| is_space(&byte), false),
            b'S' => class(|byte| is_space(&byte), true),
            b'b' => Node::WordBoundary(true),
            b'B' => Node::WordBoundary(false),
            byte if byte.is_ascii_alphanumeric() => return Err(EreError::Escape(char::from(*byte))),
            b'<' | b'>' | b'`' | b'\'' => return Err(EreError::Escape(char::from(*escaped))),
            byte => self.byte(*byte),
        })
    }

    /// What stands in brackets, whose first one has been read.
    fn bracket(&mut self) -> Result<Node, EreError> {
        let mut set = [0; 4];
        let inverse = self.rest.first() == Some(&b'^');
        if inverse {
            self.rest = &self.rest[1..];
        }
        let mut is_first = true;
        loop {
            match self.rest {
                [] => return Err(EreError::Bracket),
                [b']', rest @ ..] if !is_first => {
                    self.rest = rest;
                    break;
                }
                [b'[', b':', rest @ ..] => {
                    self.rest = rest;
                    self.class(&mut set)?;
                }
                [b'[', b'.' | b'=', ..] => return Err(EreError::Bracket),
                [from, b'-', to, rest @ ..] if *to != b']' => {
                    if from > to || (*to == b'[' && matches!(rest, [b':' | b'.' | b'=', ..])) {
                        return Err(EreError::Bracket);
                    }
                    (*from..=*to).for_each(|byte| self.put(&mut set, byte));
                    self.rest = rest;
                }
                [byte, rest @ ..] => {
                    self.put(&mut set, *byte);
                    self.rest = rest;
                }
            }
            is_first = false;
        }
        if inverse {
            set.iter_mut().for_each(|word| *word = !*word);
        }
        Ok(Node::Set(Box::new(set)))
    }

    /// `[:name:]` within brackets, whose beginning has been read.
    fn class(&mut self, set: &mut Set) -> Result<(), EreError> {
        let end = self.rest.windows(2).position(|pair| pair == b":]").ok_or(EreError::Bracket)?;
        let is: fn(&u8) -> bool = match &self.rest[..end] {
            b"alnum" => u8::is_ascii_alphanumeric,
            b"alpha" => u8::is_ascii_alphabetic,
            b"blank" => |byte| matches!(byte, b' ' | b'\t'),
            b"cntrl" => u8::is_ascii_control,
            b"digit" => u8::is_ascii_digit,
            b"graph" => u8::is_ascii_graphic,
            b"lower" => u8::is_ascii_lowercase,
            b"print" => |byte| byte.is_ascii_graphic() || *byte == b' ',
            b"punct" => u8::is_ascii_punctuation,
            b"space" => is_space,
            b"upper" => u8::is_ascii_uppercase,
            b"xdigit" => u8::is_ascii_hexdigit,
            _ => return Err(EreError::Bracket),
        };
        (0..=u8::MAX).filter(is).for_each(|byte| self.put(set, byte));
        self.rest = &self.rest[end + 2..];
        Ok(())
    }

    /// What was read, as often as what follows it says.
    fn repeated(&mut self, mut node: Node) -> Result<Node, EreError> {
        let mut depth = self.depth;
        loop {
            let (least, most) = match self.rest {
                [b'*', rest @ ..] => {
                    self.rest = rest;
                    (0, None)
                }
                [b'+', rest @ ..] => {
                    self.rest = rest;
                    (1, None)
                }
                [b'?', rest @ ..] => {
                    self.rest = rest;
                    (0, Some(1))
                }
                [b'{', rest @ ..] if rest.first().is_some_and(u8::is_ascii_digit) => self.bounds(rest)?,
                _ => return Ok(node),
            };
            depth += 1;
            if depth > DEPTH_MAX {
                return Err(EreError::TooLarge);
            }
            node = Node::Repeat(Box::new(node), least, most);
        }
    }

    fn bounds(&mut self, rest: &[u8]) -> Result<(u32, Option<u32>), EreError> {
        let end = memchr::memchr(b'}', rest).ok_or(EreError::Bounds)?;
        let number = |text: &[u8]| -> Result<u32, EreError> {
            let text = std::str::from_utf8(text).map_err(|_| EreError::Bounds)?;
            let number = text.parse::<u32>().map_err(|_| EreError::Bounds)?;
            if number > REPEAT_MAX { Err(EreError::TooLarge) } else { Ok(number) }
        };
        let inner = &rest[..end];
        let (least, most) = match memchr::memchr(b',', inner) {
            None => {
                let exactly = number(inner)?;
                (exactly, Some(exactly))
            }
            Some(comma) if comma + 1 == inner.len() => (number(&inner[..comma])?, None),
            Some(comma) => (number(&inner[..comma])?, Some(number(&inner[comma + 1..])?)),
        };
        if most.is_some_and(|most| most < least) {
            return Err(EreError::Bounds);
        }
        self.rest = &self.rest[end + 2..];
        Ok((least, most))
    }
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn find<'t>(expression: &str, text: &'t str) -> Option<Vec<Option<&'t str>>> {
        let ere = Ere::compile(expression.as_bytes(), false).unwrap();
        let found = ere.find(&mut Matcher::default(), text.as_bytes())?;
        Some((0..=ere.groups()).map(|group| found.get(group).map(|range| &text[range])).collect())
    }

    fn whole<'t>(expression: &str, text: &'t str) -> Option<&'t str> {
        find(expression, text)?[0]
    }

    #[test]
    fn what_is_repeated_without_end_is_refused_at_once() {
        for expression in ["a{0}{1000}{1000}{1000}{1000}", "(){1000}{1000}{1000}", "(a{0}){1000}{1000}"] {
            assert!(Ere::compile(expression.as_bytes(), false).is_err(), "{expression}");
        }
    }

    #[test]
    fn the_leftmost_and_of_those_the_longest_match_is_found() {
        for (expression, text, found) in [
            ("a|ab", "xab", Some("ab")),
            ("ab|a", "xab", Some("ab")),
            ("abcd|c", "abcd", Some("abcd")),
            ("c|abcd", "abce", Some("c")),
            ("(a|ab)(c|bcd)", "abcd", Some("abcd")),
            ("x*", "aaa", Some("")),
            ("", "abc", Some("")),
            (".*", "a\r\nb", Some("a\r\nb")),
            ("^b", "ab", None),
            ("a$", "ab", None),
            ("^ab$", "ab", Some("ab")),
            (
                "[0-9]{1,3}[.][0-9]{1,3}[.][0-9]{1,3}[.][0-9]{1,3}[:][0-9]{1,5}",
                "Via: 127.0.0.1:5060;x",
                Some("127.0.0.1:5060"),
            ),
            ("a{2}", "aaa", Some("aa")),
            ("ba{0}c", "bac bc", Some("bc")),
            ("a{2,}", "baaaa", Some("aaaa")),
            ("a{0,2}b", "aaab", Some("aab")),
            ("[]a]+", "x]a]", Some("]a]")),
            ("[^]a]+", "]ab]", Some("b")),
            ("[a\\]x]", "a\\", None),
            ("[a-c-]+", "xa-cd", Some("a-c")),
            ("a{b", "a{b", Some("a{b")),
            ("\\.", "a.b", Some(".")),
            ("(a*)*b", "aab", Some("aab")),
            ("\\bid\\b", "void id", Some("id")),
            ("[[:space:]]+", "a \t\r\nb", Some(" \t\r\n")),
        ] {
            assert_eq!(whole(expression, text), found, "{expression}");
        }
    }

    #[test]
    fn groups_are_parts_of_the_match() {
        let found =
            find("o=([[:alnum:]]*) ([[:alnum:]]*) ([[:alnum:]]*)", "v=0\r\no=user1 53655765 2353687637 IN");
        let expected = ["o=user1 53655765 2353687637", "user1", "53655765", "2353687637"].map(Some);
        assert_eq!(found.unwrap(), expected);
        assert_eq!(find("(a)|(b)", "b").unwrap(), [Some("b"), None, Some("b")]);
        assert_eq!(
            find("<sip:([^>;]*)(;[^>]*)?>", "To: <sip:a@b>").unwrap(),
            [Some("<sip:a@b>"), Some("a@b"), None]
        );
    }

    #[test]
    fn case_may_not_matter() {
        let ere = Ere::compile(b"contact: <SIP:([a-f]+)", true).unwrap();
        let found = ere.find(&mut Matcher::default(), b"CONTACT: <sip:ABC@").unwrap();
        assert_eq!(found.get(1), Some(14..17));
    }

    #[test]
    fn what_is_malformed_or_too_large_is_refused() {
        for (expression, error) in [
            ("(a", EreError::Parenthesis),
            ("a)", EreError::Parenthesis),
            ("[a", EreError::Bracket),
            ("[[:none:]]", EreError::Bracket),
            ("[b-a]", EreError::Bracket),
            ("*a", EreError::NothingToRepeat),
            ("a|*", EreError::NothingToRepeat),
            ("{2}", EreError::NothingToRepeat),
            ("a{2,1}", EreError::Bounds),
            ("a{2", EreError::Bounds),
            ("a\\", EreError::Backslash),
            ("(a)\\1", EreError::Escape('1')),
            ("\\d", EreError::Escape('d')),
            ("(a{1000}){1000}", EreError::TooLarge),
            ("a{1001}", EreError::TooLarge),
        ] {
            assert_eq!(Ere::compile(expression.as_bytes(), false).unwrap_err(), error, "{expression}");
        }
        let deep = "(".repeat(5_000);
        assert_eq!(Ere::compile(deep.as_bytes(), false).unwrap_err(), EreError::TooLarge);
        assert_eq!(Ere::compile("(".repeat(50).as_bytes(), false).unwrap_err(), EreError::TooLarge);
        let stars = format!("a{}", "*".repeat(900));
        assert_eq!(Ere::compile(stars.as_bytes(), false).unwrap_err(), EreError::TooLarge);
    }

    /// All ends of matches from a place, by trying everything.
    fn ends(node: &Node, text: &[u8], at: usize) -> Vec<usize> {
        let mut found = match node {
            Node::Empty => vec![at],
            Node::Set(set) => match text.get(at) {
                Some(byte) if contains(set, *byte) => vec![at + 1],
                _ => Vec::new(),
            },
            Node::Start => {
                if at == 0 {
                    vec![at]
                } else {
                    Vec::new()
                }
            }
            Node::End => {
                if at == text.len() {
                    vec![at]
                } else {
                    Vec::new()
                }
            }
            Node::WordBoundary(is) => {
                if is_boundary(text, at) == *is {
                    vec![at]
                } else {
                    Vec::new()
                }
            }
            Node::Sequence(nodes) => nodes
                .iter()
                .fold(vec![at], |from, node| from.into_iter().flat_map(|at| ends(node, text, at)).collect()),
            Node::Either(nodes) => nodes.iter().flat_map(|node| ends(node, text, at)).collect(),
            Node::Group(_, node) => ends(node, text, at),
            Node::Repeat(node, least, most) => {
                let (mut all, mut from) = (Vec::new(), vec![at]);
                for round in 0..=most.unwrap_or(least + text.len() as u32 + 1) {
                    if round >= *least {
                        all.extend_from_slice(&from);
                    }
                    from = from.into_iter().flat_map(|at| ends(node, text, at)).collect();
                    from.sort_unstable();
                    from.dedup();
                }
                all
            }
        };
        found.sort_unstable();
        found.dedup();
        found
    }

    proptest! {
        #[test]
        fn matches_are_those_that_trying_everything_finds(
            expression in "([ab.]|a\\*|b\\?|\\(a\\|b\\)|\\(ab\\)\\*|[ab]\\{1,2\\}|\\||\\^|\\$){0,6}",
            text in "[abc]{0,8}",
        ) {
            let mut parser = Parser { rest: expression.as_bytes(), any_case: false, groups: 0, depth: 0 };
            let node = parser.either().unwrap();
            let ere = Ere::compile(expression.as_bytes(), false).unwrap();
            let bytes = text.as_bytes();
            let expected = (0..=bytes.len()).find_map(|at| Some((at, *ends(&node, bytes, at).last()?)));
            let found = ere.find(&mut Matcher::default(), bytes).and_then(|found| found.get(0));
            prop_assert_eq!(found.map(|range| (range.start, range.end)), expected);
        }

        #[test]
        fn any_bytes_are_refused_or_matched(expression in proptest::collection::vec(any::<u8>(), 0..60), text in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(ere) = Ere::compile(&expression, true) {
                let found = ere.find(&mut Matcher::default(), &text);
                if let Some(range) = found.and_then(|found| found.get(0)) {
                    prop_assert!(range.start <= range.end && range.end <= text.len());
                }
            }
        }
    }
}
