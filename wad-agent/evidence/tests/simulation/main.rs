//! The statistics, held against others'.

mod published;
