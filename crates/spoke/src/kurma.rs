//! Kurma here: this program as a plugin's executables, as the engine of the networking pod, and as
//! the CNI plugin that runs other plugins out of their images.

mod executable;
mod out_of_image;
mod wrapped;

pub(crate) use executable::run;
pub(crate) use out_of_image::run as run_out_of_image;
