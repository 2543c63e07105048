// The id of a message, as ingest answers it and tools take it: `<log>-<partition>-<offset>`.

import { limits } from '../sinks/sink.ts'

/** `log` is the number under which a store knows the log, or the topic's name; empty where an id leaves it out. */
export interface MessageId {
  readonly log: string
  readonly partition: number
  readonly offset: number
}

/** Topics may have a `-` in their names, so an id is read from its end. Undefined for what is none. */
export function parseMessageId(text: string): MessageId | undefined {
  const [, log = '', partitionText, offsetText] = /^(?:(.+)-)?(\d{1,4})-(\d{1,14})$/.exec(text) ?? []
  if (partitionText === undefined || offsetText === undefined) return undefined
  const [partition, offset] = [Number(partitionText), Number(offsetText)]
  return partition <= limits.partition && offset <= limits.offset ? { log, partition, offset } : undefined
}
