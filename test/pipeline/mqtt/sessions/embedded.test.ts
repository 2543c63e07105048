// The sessions in a file.

import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { openEmbeddedSessions } from '../../../../pipeline/mqtt/sessions/embedded.ts'
import type { SessionStore } from '../../../../pipeline/mqtt/sessions/store.ts'
import { SessionsUnavailableError } from '../../../../pipeline/mqtt/sessions/store.ts'
import { keptSession, sessionConformance, someClient } from '../../../conformance/sessions.ts'
import { temporaryFolder } from '../../../temporary-folder.ts'
import { silent } from '../../kafka/stored-messages.ts'

sessionConformance('a file of sessions', () => {
  const path = `${temporaryFolder()}/sessions.sqlite`
  let nowMs = Date.now()
  let store: SessionStore | undefined
  return {
    open() {
      if (store !== undefined) return store
      const opened = openEmbeddedSessions({ path, logger: silent, clock: () => nowMs })
      store = {
        ...opened,
        close() {
          store = undefined
          return opened.close()
        },
      }
      return store
    },
    pass: ms => void (nowMs += ms),
  }
})

test('what the file refuses is unavailable, and what comes after it is saved', async () => {
  const path = `${temporaryFolder()}/sessions.sqlite`
  await openEmbeddedSessions({ path, logger: silent }).close()
  const file = new DatabaseSync(path)
  file.exec(`CREATE TRIGGER full BEFORE INSERT ON sessions WHEN NEW.client = 'refused' BEGIN SELECT RAISE(FAIL, 'disk full'); END`)
  file.close()
  const store = openEmbeddedSessions({ path, logger: silent })
  const [refused, kept] = [someClient('refused'), someClient()]
  const held = await store.take(refused, () => undefined)
  const saving = held.save(keptSession(1))
  await expect(saving).rejects.toBeInstanceOf(SessionsUnavailableError)
  await expect(saving).rejects.toThrow(/disk full/)
  const other = await store.take(kept, () => undefined)
  await other.save(keptSession(2))
  expect((await store.take(kept, () => undefined)).kept).toEqual(keptSession(2))
  expect((await store.take(refused, () => undefined)).kept).toBeUndefined()
  await store.close()
})
