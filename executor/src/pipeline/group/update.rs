//! How cells take rows in: code of a row, of what a thread or a block has gathered, and what is known of the sums.

use super::super::flow::Flow;
use super::Distincts;
use super::cells::{How, Taken};
use super::extreme::{Args, extreme};
use crate::codegen::{Translated, c_number};

/// No group has more rows.
const ROWS_ALL: u128 = 1 << 48;
/// The largest magnitude of a sum.
const SUM_MAX: u128 = 1 << 124;

/// How a cell's value comes about.
pub struct Update {
    pub how: How,
    /// C++ of when a row counts.
    pub when: Option<String>,
    pub value: String,
    /// Of two words; of a thread's own.
    pub wide: bool,
    own_wide: bool,
    /// The largest magnitude of the cell's value, and that of one row's, where these are known.
    pub bound: Option<i128>,
    pub each: Option<i128>,
}

impl Update {
    /// What takes the words of a group in that is put together with others.
    pub fn merging(how: How, words: &[String], (bound, each): (Option<i128>, Option<i128>)) -> Self {
        let wide = words.len() > 1;
        let (how, value) = match (how, words) {
            (How::Sum, [low, high]) => (How::Sum, format!("bits_128({high}, {low})")),
            (How::Sum | How::Count, _) => (How::Sum, words[0].clone()),
            (How::FloatSum, _) => (How::FloatSum, format!("bit_cast<f64>({})", words[0])),
            (How::Least | How::Greatest, [low, high]) => (How::Greatest, format!("wide_number({low}, {high})")),
            (How::Least | How::Greatest | How::Shown, _) => (How::Greatest, words[0].clone()),
        };
        Self {
            how,
            when: None,
            value,
            wide,
            own_wide: wide,
            bound,
            each,
        }
    }

    pub fn words(&self) -> usize {
        1 + usize::from(self.wide)
    }

    /// Words of a thread's own.
    pub fn own_words(&self) -> usize {
        1 + usize::from(self.own_wide)
    }

    /// C++ that takes a row into the words at these places, which are a thread's own or many threads'.
    pub fn line(&self, words: &[String], own: bool) -> String {
        let Update { value, .. } = self;
        let first = &words[0];
        let line = match (self.how, own) {
            (How::Sum, true) if self.own_wide => format!(
                "{{ i128 sum = bits_128({high}, {first}) + (i128){value}; {first} = (u64)sum; \
                 {high} = (u64)((u128)sum >> 64); }}",
                high = words[1]
            ),
            (How::Sum, false) if self.wide => {
                format!("add_wide(&{first}, &{}, (i128){value});", words[1])
            }
            (How::Count | How::Sum, true) => format!("{first} += (u64){value};"),
            (How::Count | How::Sum, false) => format!("add_word(&{first}, (u64){value});"),
            (How::FloatSum, true) => format!("{first} = bit_cast<u64>(bit_cast<f64>({first}) + {value});"),
            (How::FloatSum, false) => format!("atomicAdd((f64*)&{first}, {value});"),
            (How::Least | How::Greatest, true) if self.wide => {
                format!("greatest_own({first}, {}, {value});", words[1])
            }
            (How::Least | How::Greatest, false) if self.wide => {
                format!("greatest_wide(&{first}, &{}, {value});", words[1])
            }
            (How::Least | How::Greatest | How::Shown, true) => format!("{first} = max_of<u64>({first}, {value});"),
            (How::Least | How::Greatest | How::Shown, false) => format!("atomicMax(&{first}, {value});"),
        };
        match &self.when {
            Some(when) => format!("if ({when}) {{ {line} }}"),
            None => line,
        }
    }

    /// Code that takes a warp's words at `own` into those at `words`, once.
    pub fn reduced(&self, own: &[String], words: &[String]) -> String {
        let (mine, to) = (&own[0], &words[0]);
        let body = match self.how {
            How::Sum if self.wide => {
                let mine = match own {
                    [low, high] => format!("bits_128({high}, {low})"),
                    _ => format!("(i128)(i64){mine}"),
                };
                format!(
                    "i128 sum = warp_reduce({mine}, Sum()); \
                     if (lane_id() == 0 && sum != 0) add_wide(&{to}, &{}, sum);",
                    words[1]
                )
            }
            How::Count | How::Sum => {
                format!("u64 sum = warp_reduce({mine}, Sum()); if (lane_id() == 0 && sum) add_word(&{to}, sum);")
            }
            How::FloatSum => format!(
                "f64 sum = warp_reduce(bit_cast<f64>({mine}), Sum()); \
                 if (lane_id() == 0 && sum != 0) atomicAdd((f64*)&{to}, sum);"
            ),
            How::Least | How::Greatest if self.wide => format!(
                "u128 most = warp_reduce(wide_number({mine}, {}), Max()); \
                 if (lane_id() == 0 && most) greatest_wide(&{to}, &{}, most);",
                own[1], words[1]
            ),
            How::Least | How::Greatest | How::Shown => {
                format!("u64 most = warp_reduce({mine}, Max()); if (lane_id() == 0 && most) atomicMax(&{to}, most);")
            }
        };
        format!("    {{ {body} }}\n")
    }

    /// Code that takes a block's words at `own` into those at `words`.
    pub fn flushed(&self, own: &[String], words: &[String]) -> String {
        let (mine, to) = (&own[0], &words[0]);
        match self.how {
            How::Sum if self.wide => format!(
                "if ({mine} | {high}) add_wide(&{to}, &{}, bits_128({high}, {mine}));",
                words[1],
                high = own[1]
            ),
            How::Count | How::Sum => format!("if ({mine}) add_word(&{to}, {mine});"),
            How::FloatSum => format!("if ({mine}) atomicAdd((f64*)&{to}, bit_cast<f64>({mine}));"),
            How::Least | How::Greatest if self.wide => format!(
                "if ({mine} | {high}) greatest_wide(&{to}, &{}, wide_number({mine}, {high}));",
                words[1],
                high = own[1]
            ),
            How::Least | How::Greatest | How::Shown => format!("if ({mine}) atomicMax(&{to}, {mine});"),
        }
    }
}

/// How a cell takes a row in, of which a thread gets at most so many unless they are multiplied.
pub fn update(
    flow: &mut Flow,
    taken: &Taken,
    args: &mut Args,
    thread_rows: u64,
    distincts: &mut Distincts,
) -> Translated<Update> {
    let mut when = vec![];
    if let (Some(arg), true) = (&taken.arg, taken.distinct) {
        when.push(distincts.first(flow, arg, taken.filter.as_ref())?);
    } else if let Some(filter) = &taken.filter {
        when.push(flow.translator.boolean(filter)?.is_true());
    }
    let mut update = Update {
        how: taken.how,
        when: None,
        value: "1".into(),
        wide: false,
        own_wide: false,
        bound: None,
        each: None,
    };
    let null = match &taken.arg {
        None => None,
        // A text that counts once is known by its code.
        Some(_) if taken.distinct && taken.how == How::Count => None,
        Some(arg) if matches!(taken.how, How::Least | How::Greatest) => {
            let own = extreme(flow, args, arg)?.ok_or("an extreme of no form")?;
            update.value = if taken.how == How::Least {
                own.least
            } else {
                own.greatest
            };
            (update.wide, update.own_wide) = (own.of.is_wide(), own.of.is_wide());
            own.null
        }
        Some(arg) => {
            let value = args.value(flow, arg)?;
            match taken.how {
                How::Count | How::Least | How::Greatest => {}
                How::FloatSum => update.value = value.value,
                How::Shown => update.value = format!("(u64)({} + 1)", value.digits_shown()),
                How::Sum => {
                    let (low, high) = value.range.ok_or_else(|| format!("sums of {}", value.data_type))?;
                    let mut magnitude = low.unsigned_abs().max(high.unsigned_abs());
                    update.value = value.value;
                    let rows = match flow.multiplied {
                        true => u128::MAX,
                        false => u128::from(flow.rows_max),
                    };
                    // Of no more rows than there can be. Where values as large as they may be have no sum in 128 bits, those
                    // that are too large have the CPU do the work.
                    let most = match SUM_MAX / rows.clamp(1, ROWS_ALL) {
                        most if taken.squared => most.isqrt(),
                        most => most,
                    };
                    if magnitude > most {
                        let (own, bound) = (&update.value, c_number(most as i128));
                        let beyond = format!("{own} < -{bound} || {own} > {bound}");
                        flow.translator.fail_if(value.null.as_ref(), &beyond);
                        magnitude = most;
                    }
                    if taken.squared {
                        let own = &update.value;
                        let as_type = if magnitude < 1 << 31 { "i64" } else { "i128" };
                        update.value = format!("(({as_type}){own} * ({as_type}){own})");
                        magnitude *= magnitude;
                    }
                    update.each = i128::try_from(magnitude).ok();
                    let is_wide = |rows| magnitude.checked_mul(rows).is_none_or(|sum| sum >= 1 << 63);
                    update.wide = is_wide(rows);
                    update.own_wide = update.wide && (flow.multiplied || is_wide(thread_rows.into()));
                    let bound = i128::try_from(magnitude.saturating_mul(rows.min(ROWS_ALL))).ok();
                    update.bound = bound.filter(|bound| *bound < i128::MAX / 4);
                    if !update.wide {
                        update.bound = Some((1 << 63) - 1);
                    }
                }
            }
            value.null
        }
    };
    when.extend(null.map(|null| format!("!{null}")));
    update.when = (!when.is_empty()).then(|| when.join(" && "));
    Ok(update)
}
