//! Remote desktops as written: the servers and workloads.

use vtax_units::{Nanos, Rate};

use super::model;
use crate::decode::Many;
use crate::source::Spanned;

services! {
    /// Options of `tigervnc` and `x11vnc`.
    struct DesktopRaw = "this server of desktops", ready "60s", stop "10s" {
        /// TCP port of the first desktop; the others' are those after it.
        default port: u16 = "5901",
        /// Desktops, each for one user: the most users that a load may have. A list makes a cell for each.
        default sessions: Many<u32> = "2",
        /// Width of each desktop, in pixels.
        default width: u16 = "1024",
        /// Height of each desktop, in pixels.
        default height: u16 = "768",
        /// How a client proves who it is: `none`, `password` (VNC authentication), and within TLS (VeNCrypt) `x509` and `x509-password`; `x11vnc` has no TLS here.
        default security: Many<DesktopSecurityRaw> = "none",
        /// stunnel is in front of the desktops: TLS from the first byte, as secure channels are made of servers that have none.
        default tunnel: Many<bool> = "false",
    }
}

raw! {
    /// Options of the `desktop` workload. A list of values makes a cell for each.
    struct DesktopWorkloadRaw = "`desktop`" {
        /// What users do: `type`, `scroll`, `drag` (a picture), `film` (its next picture), or `mix`: of ten actions six characters, two clicks of the
        /// wheel, one step of a drag and one picture.
        default actions: Many<DesktopActionsRaw> = "mix",
        /// Actions of one user per second, where the load has a rate: it is shared by as many users as that makes.
        default rate: Many<Rate> = "4/s",
        /// How long a user waits after an answer where the load has no rate.
        default think: Many<Nanos> = "0s",
        /// How long a user stays connected until another one comes instead; `0s`: to the end. The first ones' stays are shorter, so that
        /// users come one after the other.
        default stay: Many<Nanos> = "0s",
        /// `real-time`: users don't wait for answers, and what the server merges into one update is counted. `slow-motion`: an action waits
        /// for the answer to the last, so that none is merged.
        default pace: Many<DesktopPaceRaw> = "real-time",
        /// How pixels are sent: `raw`, `rre`, `hextile`, `zrle` or `tight` (without JPEG).
        default encoding: Many<DesktopEncodingRaw> = "tight",
        /// Moved pixels may be sent as copies (CopyRect).
        default copies: Many<bool> = "true",
        /// The server sends updates unasked, where it can.
        default continuous: Many<bool> = "true",
        /// An action not answered on the screen within this time, counted from its intended start, has failed.
        default timeout: Many<Nanos> = "2s",
    }
}

words! {
    /// How a client proves who it is.
    DesktopSecurityRaw(model::DesktopSecurity) = "security", "kinds of security" {
        "none": None, "Not at all.";
        "password": Password, "By VNC authentication.";
        "x509": X509, "Not at all, within TLS with a certificate (VeNCrypt).";
        "x509-password": X509Password, "By a password, within TLS with a certificate (VeNCrypt).";
    }
    /// Whether an action waits for the answer to the last.
    DesktopPaceRaw(model::DesktopPace) = "pace", "paces" {
        "slow-motion": SlowMotion, "It does: no answers are merged.";
        "real-time": RealTime, "It doesn't, as users don't.";
    }
    /// How pixels are sent.
    DesktopEncodingRaw(model::DesktopEncoding) = "encoding", "encodings" {
        "raw": Raw, "As they are.";
        "rre": Rre, "A background and rectangles on it.";
        "hextile": Hextile, "The same for each tile of 16 by 16.";
        "zrle": Zrle, "Palettes and runs, compressed.";
        "tight": Tight, "Palettes and fills, compressed; without JPEG.";
    }
    /// What users do.
    DesktopActionsRaw(model::DesktopScript) = "actions", "kinds of action" {
        "type": Type, "Characters.";
        "scroll": Scroll, "Clicks of the wheel: three lines of text move.";
        "drag": Drag, "A picture follows the pointer.";
        "film": Film, "The next picture of a film.";
        "mix": Mix, "Of ten actions six characters, two clicks of the wheel, one step of a drag, one picture.";
    }
}
