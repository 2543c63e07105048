// How the topics of dead letters and of replays are made on Kafka: whoever opens one first makes it, a writer or a tool.

/** A letter is larger than its message by its headers: the reason and what the message's own sender gave. */
const letterHeadersBytes = 1024 * 1024

/**
 * Letters stay until a person has settled them.
 *
 * @param payloadBytes the largest payload that the writer takes
 */
export function lettersTopicConfig(payloadBytes: number): Record<string, string> {
  return { 'retention.ms': '-1', ...replaysTopicConfig(payloadBytes) }
}

/** A message that has a letter fits into the topic of replays, too. */
export function replaysTopicConfig(payloadBytes: number): Record<string, string> {
  return { 'max.message.bytes': String(payloadBytes + letterHeadersBytes) }
}
