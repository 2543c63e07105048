// The sessions in a file.

import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import type { SessionStore } from '../../../../pipeline/mqtt/sessions/store.ts'
import { SessionsUnavailableError } from '../../../../pipeline/mqtt/sessions/store.ts'
import { keptSession, sessionConformance, someClient } from '../../../conformance/sessions.ts'
import { temporaryFolder } from '../../../temporary-folder.ts'
import { openSessionsFile } from '../site.ts'

sessionConformance('a file of sessions', () => {
  const path = `${temporaryFolder()}/sessions.sqlite`
  let nowMs = Date.now()
  let store: SessionStore | undefined
  return {
    open() {
      if (store !== undefined) return store
      const opened = openSessionsFile(path, () => nowMs)
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
  await openSessionsFile(path).close()
  const file = new DatabaseSync(path)
  file.exec(`CREATE TRIGGER full BEFORE INSERT ON records WHEN NEW.key LIKE '% refused' BEGIN SELECT RAISE(FAIL, 'disk full'); END`)
  file.close()
  const store = openSessionsFile(path)
  const [refused, kept] = [someClient('refused'), someClient()]
  const taking = store.take(refused, () => undefined)
  await expect(taking).rejects.toBeInstanceOf(SessionsUnavailableError)
  await expect(taking).rejects.toThrow(/disk full/)
  const other = await store.take(kept, () => undefined)
  await other.save(keptSession(2))
  expect((await store.take(kept, () => undefined)).kept).toEqual(keptSession(2))
  await store.close()
})
