// The patch of kafkajs is for the version that is installed, and its connections no longer wake an idle process.

import { createRequire } from 'node:module'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { kafkaConnection, openKafkajs } from '../../../pipeline/kafka/connection.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { logSettings, silent } from './stored-messages.ts'

const require = createRequire(import.meta.url)

test('kafkajs is the version that was read; with another one look at kafkajs-idle-timer.ts and at its request queue', () => {
  expect((require('kafkajs/package.json') as { version: string }).version).toBe('2.2.4')
  const source = (require('kafkajs/src/network/requestQueue') as { prototype: { checkPendingRequests: () => void } }).prototype
    .checkPendingRequests
  expect(source.toString()).toContain('this.scheduleCheckPendingRequests()')
})

describeWithKafka('an idle connection of kafkajs', kafka => {
  test('sets no timer while nothing is pending', async () => {
    const client = await openKafkajs(await kafkaConnection(logSettings(kafka.brokers, 'any')), silent)
    const { prototype } = require('kafkajs/src/network/requestQueue') as { prototype: { checkPendingRequests: () => void } }
    const check = prototype.checkPendingRequests
    let checks = 0
    prototype.checkPendingRequests = function (this: unknown) {
      checks++
      check.call(this)
    }
    try {
      const admin = client.admin()
      await admin.connect()
      await admin.listTopics()
      const before = checks
      await wait(200)
      // Without the patch it is one each millisecond.
      expect(checks - before).toBeLessThan(5)
      expect(before).toBeGreaterThan(0)
      expect(await Promise.all(Array.from({ length: 20 }, () => admin.listTopics()))).toHaveLength(20)
      await admin.disconnect()
    } finally {
      prototype.checkPendingRequests = check
    }
  })
})
