// Everything that was opened is closed.

import { expect, test } from 'vitest'
import { openCleanup } from '../../config/cleanup.ts'
import { recordingLogger } from '../pipeline/writer/workers/recording-logger.ts'

test('parts are closed in reverse order, and one that does not close is logged and does not keep others open', async () => {
  const { logger, lines } = recordingLogger()
  const cleanup = openCleanup(logger)
  const closed: string[] = []
  for (const part of ['store', 'sink', 'source']) {
    cleanup.add(async () => {
      if (part === 'sink') throw new Error('the sink does not close')
      closed.push(part)
    })
  }
  expect(await cleanup.close()).toMatchObject({ message: 'the sink does not close' })
  expect(closed).toEqual(['source', 'store'])
  expect(lines()).toMatchObject([{ msg: 'a component failed to close', err: { message: 'the sink does not close' } }])
  expect(await cleanup.close()).toBeUndefined()
  expect(closed).toEqual(['source', 'store'])
})
