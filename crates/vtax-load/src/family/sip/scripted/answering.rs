//! The scenario after which calls with sound are answered where nobody gives another.

use vtax_plan::model::MediaOptions;

/// What stands at the head of every answer.
const HEAD: &str = "[last_Via:]\n[last_Record-Route:]\n[last_From:]\n[last_To:];tag=[pid]-[call_number]\n[last_Call-ID:]\n[last_CSeq:]\n\
                    Contact: <sip:[local_ip]:[local_port]>\n";

/// A server's scenario: an INVITE is answered with 180 and 200, a BYE with 200. It names one codec and the length of packets.
#[must_use]
pub fn answering(media: &MediaOptions) -> String {
    let payload = media.law.law().payload_type();
    let packet = media.packet.0 / 1_000_000;
    format!(
        "<scenario name=\"uas\">\n\
         <recv request=\"INVITE\"/>\n\
         <send><![CDATA[\nSIP/2.0 180 Ringing\n{HEAD}Content-Length: 0\n]]></send>\n\
         <send retrans=\"500\"><![CDATA[\nSIP/2.0 200 OK\n{HEAD}Content-Type: application/sdp\nContent-Length: [len]\n\n\
         v=0\no=vtax 1 1 IN IP[local_ip_type] [local_ip]\ns=-\nc=IN IP[media_ip_type] [media_ip]\nt=0 0\n\
         m=audio [media_port] RTP/AVP {payload}\na=ptime:{packet}\n]]></send>\n\
         <recv request=\"ACK\" optional=\"true\"/>\n\
         <recv request=\"BYE\" timeout=\"86400000\"/>\n\
         <send><![CDATA[\nSIP/2.0 200 OK\n[last_Via:]\n[last_From:]\n[last_To:]\n[last_Call-ID:]\n[last_CSeq:]\nContent-Length: 0\n]]></send>\n\
         <timewait milliseconds=\"4000\"/>\n\
         </scenario>\n"
    )
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::VoiceLaw;
    use vtax_units::Nanos;
    use vtax_wire::sipp::Scenario;

    use super::*;

    #[test]
    fn it_answers_calls() {
        let media = MediaOptions {
            law: VoiceLaw::A,
            packet: Nanos::from_millis(30),
            jitter_buffer: Nanos::from_millis(60),
        };
        let text = answering(&media);
        assert!(text.contains("RTP/AVP 8\na=ptime:30\n"), "{text}");
        let scenario = Scenario::compile(text.as_bytes(), &[]).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(scenario.is_server && scenario.commands.len() == 7);
    }
}
