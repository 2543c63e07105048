// The fakes fulfil the same contracts as the real ones.

import { LogUnavailableError } from '../../pipeline/log.ts'
import { logConformance } from '../conformance/log.ts'
import { sourceConformance } from '../conformance/source.ts'
import { openFakeLog } from './fake-log.ts'
import { openFakeSource } from './fake-source.ts'

logConformance('the fake log', async () => {
  const log = openFakeLog()
  return {
    log,
    read: async () => log.messages.map((message, offset) => ({ offset, message: { ...message, headers: message.headers ?? [] } })),
    reopen: async () => {
      log.reopened()
      return log
    },
    break: () => {
      log.failure = new LogUnavailableError('broken')
    },
    mend: () => {
      log.failure = undefined
    },
    dispose: () => log.close(),
  }
})

sourceConformance('the fake source', async () => {
  const log = openFakeLog()
  return {
    append: messages => log.append(messages),
    open: settings => openFakeSource(log, settings),
    deleteBelow: offset => log.deleteBelow(offset),
    dispose: () => log.close(),
  }
})
