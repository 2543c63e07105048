// The log on Kafka fulfils the contract of a log.

import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { logConformance } from '../../conformance/log.ts'
import { describeWithOwnKafka } from '../../servers/kafka.ts'
import { asOutgoing, impatient, logSettings, readTopic, silent } from './stored-messages.ts'

describeWithOwnKafka('on Kafka', kafka => {
  logConformance('the log', async () => {
    const topic = await kafka.createTopic({ partitions: 1 })
    const open = () => openKafkaLog(logSettings(kafka.proxied, topic, impatient), silent)
    let log = await open()
    return {
      log,
      read: async () => (await readTopic(kafka.brokers, topic)).map(stored => ({ offset: stored.offset, message: asOutgoing(stored) })),
      reopen: async () => {
        await log.close()
        log = await open()
        return log
      },
      break: () => {
        // First, so that no client can reconnect.
        kafka.proxy.refuse()
        kafka.proxy.cut()
      },
      mend: () => void kafka.proxy.heal(),
      dispose: async () => {
        await kafka.proxy.heal()
        await log.close()
      },
    }
  })
})
