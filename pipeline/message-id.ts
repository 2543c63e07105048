// The id of a message, as ingest returns it and tools accept it: `<log>-<partition>-<offset>`.

import { limits } from '../sinks/sink.ts'

/** `log` is the number under which a store knows the log, or the topic's name; empty if an id omits it. */
export interface MessageId {
  readonly log: string
  readonly partition: number
  readonly offset: number
}

/** Topics may have a `-` in their names, so an id is parsed from its end. Undefined for an invalid id. */
export function parseMessageId(text: string): MessageId | undefined {
  const [, log = '', partitionText, offsetText] = /^(?:(.+)-)?(\d{1,4})-(\d{1,14})$/.exec(text) ?? []
  if (partitionText === undefined || offsetText === undefined) return undefined
  const [partition, offset] = [Number(partitionText), Number(offsetText)]
  return partition <= limits.partition && offset <= limits.offset ? { log, partition, offset } : undefined
}
