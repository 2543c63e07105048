// Configuration of the dead-letter topic on Kafka, which the first writer or tool that opens it creates.

/** Room for the headers of a letter, in addition to the message: the reason, and the sender's own headers. */
const deadLetterHeadersBytes = 1024 * 1024

/**
 * Letters are kept forever, because an operator must resolve them; also where the brokers' default is to compact.
 *
 * @param payloadBytes the largest payload that the writer accepts
 */
export function deadLettersTopicConfig(payloadBytes: number): Record<string, string> {
  return { 'cleanup.policy': 'delete', 'retention.ms': '-1', 'max.message.bytes': String(payloadBytes + deadLetterHeadersBytes) }
}
