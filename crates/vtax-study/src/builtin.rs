//! Studies that are part of the program.

/// A file of a study: its name within the folder, and its text.
type StudyFile = (&'static str, &'static str);

/// Takes in a file of a study.
macro_rules! taken {
    ($study:literal, $name:literal) => {
        ($name, include_str!(concat!("../studies/", $study, "/", $name)))
    };
}

/// Every study with its files, in the order in which they were added.
const STUDIES: [(&str, &[StudyFile]); 5] = [
    (
        "virtual-servers",
        &[
            taken!("virtual-servers", "claims.yaml"),
            taken!("virtual-servers", "plans/copies-quick.yaml"),
            taken!("virtual-servers", "plans/copies.yaml"),
            taken!("virtual-servers", "plans/desktops-quick.yaml"),
            taken!("virtual-servers", "plans/desktops.yaml"),
            taken!("virtual-servers", "plans/disks-quick.yaml"),
            taken!("virtual-servers", "plans/disks.yaml"),
            taken!("virtual-servers", "plans/ftp-quick.yaml"),
            taken!("virtual-servers", "plans/ftp.yaml"),
            taken!("virtual-servers", "plans/network-quick.yaml"),
            taken!("virtual-servers", "plans/network.yaml"),
            taken!("virtual-servers", "plans/raid-quick.yaml"),
            taken!("virtual-servers", "plans/raid.yaml"),
            taken!("virtual-servers", "plans/san-quick.yaml"),
            taken!("virtual-servers", "plans/san.yaml"),
        ],
    ),
    (
        "virtual-nas",
        &[
            taken!("virtual-nas", "claims.yaml"),
            taken!("virtual-nas", "plans/cards-quick.yaml"),
            taken!("virtual-nas", "plans/cards.yaml"),
            taken!("virtual-nas", "plans/drivers-quick.yaml"),
            taken!("virtual-nas", "plans/drivers.yaml"),
            taken!("virtual-nas", "plans/nas-quick.yaml"),
            taken!("virtual-nas", "plans/nas.yaml"),
        ],
    ),
    (
        "virtualized-ims",
        &[
            taken!("virtualized-ims", "claims.yaml"),
            taken!("virtualized-ims", "plans/capacity-quick.yaml"),
            taken!("virtualized-ims", "plans/capacity.yaml"),
            taken!("virtualized-ims", "plans/cards-quick.yaml"),
            taken!("virtualized-ims", "plans/cards.yaml"),
            taken!("virtualized-ims", "plans/delays-quick.yaml"),
            taken!("virtualized-ims", "plans/delays.yaml"),
        ],
    ),
    (
        "consolidated-servers",
        &[
            taken!("consolidated-servers", "claims.yaml"),
            taken!("consolidated-servers", "plans/ftp-quick.yaml"),
            taken!("consolidated-servers", "plans/ftp.yaml"),
            taken!("consolidated-servers", "plans/web-quick.yaml"),
            taken!("consolidated-servers", "plans/web.yaml"),
        ],
    ),
    (
        "virtual-links",
        &[
            taken!("virtual-links", "claims.yaml"),
            taken!("virtual-links", "plans/links-quick.yaml"),
            taken!("virtual-links", "plans/links.yaml"),
        ],
    ),
];

/// Names of the studies that are part of the program.
#[must_use]
pub fn names() -> Vec<&'static str> {
    STUDIES.iter().map(|(name, _)| *name).collect()
}

/// The files of one of them.
#[must_use]
pub(crate) fn built_in(name: &str) -> Option<&'static [(&'static str, &'static str)]> {
    STUDIES.iter().find(|(known, _)| *known == name).map(|(_, files)| *files)
}
