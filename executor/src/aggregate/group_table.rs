//! Group numbers: each distinct key, a row of integer keys, gets the next number.
//!
//! One integer key in a narrow range: an array indexed by the key. Otherwise open addressing over the group numbers, with
//! keys compared in the array of all groups' integer keys. In front of that, several keys that are all small are packed into
//! 16 bits, which index an array of the group numbers found before.
//!
//! More than 400 lines because the forms of the table become each other.

/// Entries of the array form allowed whatever the groups, for each group, and at all.
const DIRECT_ALWAYS: u64 = 1 << 16;
const DIRECT_PER_GROUP: u64 = 64;
/// For each group where the table is to stay small.
const DIRECT_PER_GROUP_SMALL: u64 = 16;
const DIRECT_MAX: u64 = 1 << 27;
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

pub struct GroupTable {
    width: usize,
    /// The integer keys of every group, group by group.
    integers: Vec<i64>,
    groups: usize,
    /// The group of the rows whose key is NULL, of one key: no key of the table leads to it.
    null: Option<usize>,
    /// Entries of the array form allowed for each group.
    direct_per_group: u64,
    form: Form,
    /// Numbers plus one of keys whose integer keys fit `PACKED_BITS` together; empty until such a key comes.
    packed: Vec<u32>,
}

const PACKED_BITS: usize = 16;

/// Rows whose groups are looked for together.
const BLOCK_ROWS: usize = 128;

/// Group numbers plus one; 0 is free.
enum Form {
    Direct { base: i64, slots: Vec<u32> },
    Hashed { slots: Vec<u32>, shift: u32 },
}

impl GroupTable {
    pub fn new(width: usize, small: bool) -> Self {
        let form = match width {
            1 => Form::Direct { base: 0, slots: vec![] },
            _ => Form::Hashed {
                slots: vec![0; 64],
                shift: 58,
            },
        };
        Self {
            width,
            integers: vec![],
            groups: 0,
            null: None,
            direct_per_group: if small {
                DIRECT_PER_GROUP_SMALL
            } else {
                DIRECT_PER_GROUP
            },
            form,
            packed: vec![],
        }
    }

    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The group of the rows whose key is NULL, where there have been any; of one key.
    pub fn null(&self) -> Option<usize> {
        self.null
    }

    /// The same, from now on where there have been none.
    pub fn null_or_new(&mut self) -> usize {
        *self.null.get_or_insert_with(|| {
            self.integers.push(0);
            self.groups += 1;
            self.groups - 1
        })
    }

    /// Forgets all keys, and keeps the tables' memory.
    pub fn clear(&mut self) {
        self.integers.clear();
        self.groups = 0;
        self.null = None;
        self.packed.fill(0);
        match &mut self.form {
            Form::Direct { slots, .. } => slots.clear(),
            Form::Hashed { slots, .. } => slots.fill(0),
        }
    }

    /// Lane `column` of every group, in the order of their numbers or in another one.
    pub fn integers(&self, column: usize, order: Option<&[u32]>) -> Vec<i64> {
        match order {
            None if self.width == 1 => self.integers.clone(),
            None => self.integers.chunks_exact(self.width).map(|key| key[column]).collect(),
            Some(order) => order
                .iter()
                .map(|&group| self.integers[group as usize * self.width + column])
                .collect(),
        }
    }

    /// Makes room for so many groups.
    pub fn reserve(&mut self, groups: usize) {
        let more = (groups * self.width).saturating_sub(self.integers.len());
        self.integers.reserve(more);
        let slots = (2 * groups + 1).next_power_of_two();
        if matches!(self.form, Form::Hashed { .. }) && slots > self.slots() {
            self.form = Form::Hashed {
                slots: vec![0; slots],
                shift: 0,
            };
            self.fill();
        }
    }

    pub fn bytes(&self) -> usize {
        let (Form::Direct { slots, .. } | Form::Hashed { slots, .. }) = &self.form;
        slots.capacity() * size_of::<u32>()
            + self.integers.capacity() * size_of::<i64>()
            + self.packed.capacity() * size_of::<u32>()
    }

    /// Bytes that `assign` may allocate at once for these rows, where arrays grow: the old ones stay until then.
    pub fn growth_bytes(&self, columns: &[Vec<i64>]) -> usize {
        let rows = columns.first().map_or(0, Vec::len);
        let integers = match self.integers.len() + rows * self.width > self.integers.capacity() {
            true => (2 * self.integers.capacity()).max(self.integers.len() + rows * self.width),
            false => 0,
        };
        // Each `rehash` quadruples; the tables before the last are gone by then.
        let hashed = |slots: usize| {
            let enough = |grown: &usize| (self.groups + rows) * 2 < *grown;
            let grown = std::iter::successors(Some(slots), |slots| Some(slots * 4)).find(enough);
            grown
                .filter(|grown| *grown > slots)
                .map_or(0, |grown| grown + grown / 4)
        };
        let slots = match (&self.form, columns) {
            (Form::Direct { base, slots }, [integers]) => match span(*base, slots.len(), integers) {
                Some((_, span)) if span < self.direct_slots(rows) => match span as usize + 1 > slots.len() {
                    true => (2 * slots.capacity()).max(span as usize + 1),
                    false => 0,
                },
                Some(_) => self.first_hashed_slots() + hashed(self.first_hashed_slots()),
                None => 0,
            },
            (Form::Direct { .. }, _) => 0,
            (Form::Hashed { slots, .. }, _) => hashed(slots.len()),
        };
        integers * size_of::<i64>() + slots * size_of::<u32>()
    }

    /// Entries that the array form may have after `rows` more.
    fn direct_slots(&self, rows: usize) -> u64 {
        DIRECT_ALWAYS
            .max((self.groups + rows) as u64 * self.direct_per_group)
            .min(DIRECT_MAX)
    }

    /// Appends the group number of each row; `columns` are the integer keys, column by column.
    pub fn assign(&mut self, columns: &[Vec<i64>], out: &mut Vec<usize>) {
        if let [integers] = columns {
            if matches!(self.form, Form::Direct { .. }) && !self.widen(integers) {
                self.become_hashed();
            }
            if let Form::Direct { base, slots } = &mut self.form {
                for &integer in integers {
                    let slot = &mut slots[integer.wrapping_sub(*base) as usize];
                    if *slot == 0 {
                        self.integers.push(integer);
                        self.groups += 1;
                        *slot = self.groups as u32;
                    }
                    out.push(*slot as usize - 1);
                }
                return;
            }
            self.assign_hashed(integers, out);
            return;
        }
        let rows = columns.first().map_or(0, Vec::len);
        let bits = PACKED_BITS / self.width.max(1);
        let small = |column: &Vec<i64>| column.iter().fold(0, |all, &integer| all | integer as u64) >> bits == 0;
        if columns.len() > 1 && bits > 0 && columns.iter().all(small) {
            self.packed.resize(1 << PACKED_BITS, 0);
            let mut keys = vec![0u16; rows];
            for (at, column) in columns.iter().enumerate() {
                keys.iter_mut()
                    .zip(column)
                    .for_each(|(key, &integer)| *key |= (integer as u16) << (at * bits));
            }
            for (row, &key) in keys.iter().enumerate() {
                let number = match self.packed[usize::from(key)] {
                    0 => {
                        let number = self.assign_row(columns, row, hash(columns.iter().map(|c| c[row])));
                        self.packed[usize::from(key)] = number as u32 + 1;
                        number
                    }
                    known => known as usize - 1,
                };
                out.push(number);
            }
            return;
        }
        self.assign_rows(columns, rows, out);
    }

    /// The group numbers of rows of several integer keys, by hash, a block at a time: one step of all the block's rows, then
    /// the next. What one row reads of the tables does not wait for another's, as it would where each row decides by itself
    /// how it goes on.
    fn assign_rows(&mut self, columns: &[Vec<i64>], rows: usize, out: &mut Vec<usize>) {
        let (mut hashes, mut found) = ([0u64; BLOCK_ROWS], [0u32; BLOCK_ROWS]);
        for start in (0..rows).step_by(BLOCK_ROWS) {
            let count = BLOCK_ROWS.min(rows - start);
            let (hashes, found) = (&mut hashes[..count], &mut found[..count]);
            hashes.fill(0);
            for column in columns {
                let integers = &column[start..start + count];
                hashes
                    .iter_mut()
                    .zip(integers)
                    .for_each(|(hash, &integer)| *hash = mixed(*hash, integer));
            }
            hashes.iter_mut().for_each(|hash| *hash = hash.wrapping_mul(MULTIPLIER));
            if let Form::Hashed { slots, shift } = &self.form {
                let first = |hash: &u64| slots[(hash >> shift) as usize];
                found
                    .iter_mut()
                    .zip(&*hashes)
                    .for_each(|(found, hash)| *found = first(hash));
            }
            // Of other keys: the next slots may have the row's.
            for (at, column) in columns.iter().enumerate() {
                let integers = &column[start..start + count];
                for (found, &integer) in found.iter_mut().zip(integers) {
                    let number = (*found as usize).saturating_sub(1);
                    let known = self.integers.get(number * self.width + at);
                    *found = if known == Some(&integer) { *found } else { 0 };
                }
            }
            for (row, (&found, &hash)) in found.iter().zip(&*hashes).enumerate() {
                out.push(match found {
                    0 => self.assign_row(columns, start + row, hash),
                    found => found as usize - 1,
                });
            }
        }
    }

    /// The group numbers of rows of one integer key, by hash. Rows of one group often follow each other.
    fn assign_hashed(&mut self, integers: &[i64], out: &mut Vec<usize>) {
        let mut last = None;
        for integer in integers {
            let number = match last {
                Some((before, number)) if before == *integer => number,
                _ => self.assign_lane(*integer),
            };
            last = Some((*integer, number));
            out.push(number);
        }
    }

    fn assign_lane(&mut self, integer: i64) -> usize {
        if self.groups * 2 >= self.slots() {
            self.rehash();
        }
        let Form::Hashed { slots, shift } = &mut self.form else {
            return 0;
        };
        let last = slots.len() - 1;
        let mut slot = (hash(std::iter::once(integer)) >> *shift) as usize;
        loop {
            let taken = slots[slot & last] as usize;
            match taken {
                0 => {
                    self.integers.push(integer);
                    self.groups += 1;
                    slots[slot & last] = self.groups as u32;
                    break self.groups - 1;
                }
                _ if self.integers[taken - 1] == integer => break taken - 1,
                _ => slot += 1,
            }
        }
    }

    /// The group number of one row, by its hash.
    fn assign_row(&mut self, columns: &[Vec<i64>], row: usize, hash: u64) -> usize {
        if self.groups * 2 >= self.slots() {
            self.rehash();
        }
        let Form::Hashed { slots, shift } = &mut self.form else {
            return 0;
        };
        let mut slot = (hash >> *shift) as usize;
        loop {
            match slots[slot] {
                0 => {
                    self.integers.extend(columns.iter().map(|c| c[row]));
                    self.groups += 1;
                    slots[slot] = self.groups as u32;
                    break self.groups - 1;
                }
                taken => {
                    let known = &self.integers[(taken as usize - 1) * self.width..][..self.width];
                    if known
                        .iter()
                        .zip(columns)
                        .all(|(&integer, column)| integer == column[row])
                    {
                        break taken as usize - 1;
                    }
                    slot = (slot + 1) & (slots.len() - 1);
                }
            }
        }
    }

    fn slots(&self) -> usize {
        let (Form::Direct { slots, .. } | Form::Hashed { slots, .. }) = &self.form;
        slots.len()
    }

    /// Makes room for `integers` in the array form; false if their range is too wide for it.
    fn widen(&mut self, integers: &[i64]) -> bool {
        let allowed = self.direct_slots(integers.len());
        let Form::Direct { base, slots } = &mut self.form else {
            return false;
        };
        let Some((min, span)) = span(*base, slots.len(), integers) else {
            return true;
        };
        if span >= allowed {
            return false;
        }
        let needed = span as usize + 1;
        if slots.is_empty() {
            *base = min;
        } else if min < *base {
            let lower = base.wrapping_sub(min) as usize;
            slots.splice(0..0, std::iter::repeat_n(0, lower));
            *base = min;
        }
        if slots.len() < needed {
            slots.resize(needed, 0);
        }
        true
    }

    fn first_hashed_slots(&self) -> usize {
        ((self.groups + 32) * 2).next_power_of_two()
    }

    fn become_hashed(&mut self) {
        self.form = Form::Hashed {
            slots: vec![0; self.first_hashed_slots()],
            shift: 0,
        };
        self.fill();
    }

    fn rehash(&mut self) {
        self.form = Form::Hashed {
            slots: vec![0; self.slots() * 4],
            shift: 0,
        };
        self.fill();
    }

    fn fill(&mut self) {
        let Form::Hashed { slots, shift } = &mut self.form else {
            return;
        };
        *shift = 64 - slots.len().trailing_zeros();
        for (number, integers) in self.integers.chunks_exact(self.width).enumerate() {
            if self.null == Some(number) {
                continue;
            }
            let mut slot = (hash(integers.iter().copied()) >> *shift) as usize;
            while slots[slot] != 0 {
                slot = (slot + 1) & (slots.len() - 1);
            }
            slots[slot] = number as u32 + 1;
        }
    }
}

/// The smallest integer key of those in `slots` slots from `base` on and those in `integers`, and how far the largest is from it.
fn span(base: i64, slots: usize, integers: &[i64]) -> Option<(i64, u64)> {
    let (mut min, mut max) = crate::keys::key_range(integers, None)?;
    if slots > 0 {
        min = min.min(base);
        max = max.max(base.wrapping_add(slots as i64 - 1));
    }
    Some((min, max.wrapping_sub(min) as u64))
}

fn hash(integers: impl Iterator<Item = i64>) -> u64 {
    integers.fold(0, mixed).wrapping_mul(MULTIPLIER)
}

fn mixed(hash: u64, integer: i64) -> u64 {
    let mixed = (hash ^ integer as u64).wrapping_mul(MULTIPLIER);
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests;
