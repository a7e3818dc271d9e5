//! The toolbox is what many parts of `wad` borrow, and it knows none of them.

pub mod access;
pub mod amounts;
pub mod attempts;
pub mod back_off;
pub mod causes;
pub mod chance;
pub mod clock;
pub mod document;
pub mod mutex;
pub mod nearest;
pub mod others_file;
pub mod own_folder;
pub mod refusals;
pub mod seldom;
pub mod shortage;
pub mod shown;
pub mod side_by_side;
pub mod signals;
pub mod text_table;
pub mod url;
pub mod whole_file;
