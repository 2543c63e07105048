// A log whose messages are framed on their way in; all else is as in the log below it.

import type { KafkaLog } from '../log.ts'
import { frame } from './encode.ts'

export function framedLog(log: KafkaLog, schemaId: number): KafkaLog {
  return {
    name: log.name,
    get id() {
      return log.id
    },
    get partitions() {
      return log.partitions
    },
    append: messages => log.append(messages.map(message => frame(message, schemaId))),
    check: () => log.check(),
    close: () => log.close(),
  }
}
