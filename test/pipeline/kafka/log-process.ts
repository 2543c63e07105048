// A process with a log. On request it appends once more and closes the log, and then should end by itself.

import { once } from 'node:events'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { outgoing } from '../message.ts'
import { logSettings, silent } from './stored-messages.ts'

const [brokers, topic, appendTimeoutMs] = process.argv.slice(2)
const log = await openKafkaLog(logSettings([brokers!], topic!, { appendTimeoutMs: Number(appendTimeoutMs) }), silent)
await log.append([outgoing()])
process.send!('open')
await once(process, 'message')
const last = log.append([outgoing()]).catch(() => undefined)
await log.close()
await last
process.disconnect()
