// The data folder: used by one process at a time, and how the last process ended.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import { DataFolderError, DataFolderInUseError, openDataFolder } from '../../config/data-folder.ts'
import { temporaryFolder } from '../temporary-folder.ts'

const script = fileURLToPath(new URL('data-folder-process.ts', import.meta.url))
const children: ChildProcess[] = []

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

const newPath = () => join(temporaryFolder(), 'data')

async function openElsewhere(path: string): Promise<{ child: ChildProcess; lastStop: string }> {
  const child = spawn(process.execPath, [script, path], { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  const [chunk] = (await once(child.stdout, 'data')) as [Buffer]
  return { child, lastStop: chunk.toString().trim() }
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'close')
}

const modeOf = (path: string) => statSync(path).mode & 0o777
const isRoot = process.getuid?.() === 0

/** The error of a process that runs as the user "nobody" and cannot open the folder. */
async function refusalElsewhere(path: string): Promise<string> {
  const child = spawn(process.execPath, [script, path, '65534'], { stdio: ['ignore', 'ignore', 'pipe'] })
  children.push(child)
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString()
  })
  await once(child, 'close')
  return said
}

test('a new folder is private to its owner, and a clean stop is recorded', async () => {
  const path = newPath()
  const first = await openDataFolder(path)
  expect(first).toMatchObject({ path, lastStop: 'first' })
  expect([modeOf(path), modeOf(join(path, 'lock.db')), modeOf(join(path, 'state.json'))]).toEqual([0o700, 0o600, 0o600])
  await first.markClean()
  await first.close()
  await first.close()
  const second = await openDataFolder(path)
  expect(second.lastStop).toBe('clean')
  await second.close()
})

test('a second process is refused with an error that names the folder, the process and what to do', async () => {
  const path = newPath()
  const { child } = await openElsewhere(path)
  const refused = await openDataFolder(path).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(DataFolderInUseError)
  expect((refused as Error).message).toBe(
    `the data folder ${path} is in use by process ${child.pid}: stop it, or use another folder with --data`,
  )
})

test('SIGKILL leaves no lock behind, and the next start knows that the process was killed', async () => {
  const path = newPath()
  const { child } = await openElsewhere(path)
  await kill(child)
  const next = await openElsewhere(path)
  expect(next.lastStop).toBe('killed')
})

test('when a process ends, exactly one of many waiting ones gets the lock', async () => {
  const path = newPath()
  const opened = await Promise.allSettled(Array.from({ length: 5 }, () => openDataFolder(path)))
  const won = opened.filter(result => result.status === 'fulfilled')
  expect(won).toHaveLength(1)
  await won[0]!.value.close()
})

test('an unclean stop before a reboot of the machine is a power cut', async () => {
  const path = newPath()
  const folder = await openDataFolder(path)
  await folder.close()
  const statePath = join(path, 'state.json')
  const state = JSON.parse(readFileSync(statePath, 'utf8')) as object
  writeFileSync(statePath, JSON.stringify({ ...state, boot: 'another' }))
  // Until the data was checked, a start that is killed during its check is followed by another one.
  for (let round = 0; round < 2; round++) {
    const next = await openDataFolder(path)
    expect(next.lastStop).toBe('power-cut')
    await next.close()
  }
  const checked = await openDataFolder(path)
  await checked.markChecked()
  await checked.close()
  const after = await openDataFolder(path)
  expect(after.lastStop).toBe('killed')
  await after.close()
})

test('a folder of a newer release is refused, and not changed', async () => {
  const path = newPath()
  await (await openDataFolder(path)).close()
  const statePath = join(path, 'state.json')
  const newer = JSON.stringify({ format: 99, pid: 1, boot: '', clean: true })
  writeFileSync(statePath, newer)
  await expect(openDataFolder(path)).rejects.toThrow(/has format 99 and this release reads up to 1: start the newer release/)
  expect(readFileSync(statePath, 'utf8')).toBe(newer)
  writeFileSync(statePath, JSON.stringify({ format: 1, pid: 1, boot: '', clean: true }))
  await (await openDataFolder(path)).close()
})

test('a damaged state file, and a path that is a file, are clear errors', async () => {
  const path = newPath()
  await (await openDataFolder(path)).close()
  writeFileSync(join(path, 'state.json'), '{"format":')
  await expect(openDataFolder(path)).rejects.toThrow('state.json is damaged')
  await expect(openDataFolder(join(path, 'state.json', 'inner'))).rejects.toThrow('a part of the path is a file')
})

test('an existing folder is made private if it is empty or a data folder', async () => {
  const path = newPath()
  mkdirSync(join(path, 'lost+found'), { recursive: true })
  chmodSync(path, 0o755)
  await (await openDataFolder(path)).close()
  expect(modeOf(path)).toBe(0o700)
  writeFileSync(join(path, 'master-key'), '')
  chmodSync(path, 0o775)
  chmodSync(join(path, 'lock.db'), 0o644)
  await (await openDataFolder(path)).close()
  expect([modeOf(path), modeOf(join(path, 'lock.db'))]).toEqual([0o700, 0o600])
})

test('a folder with other files that others can enter is refused with what to do, and not changed', async () => {
  const path = newPath()
  mkdirSync(join(path, 'photos'), { recursive: true })
  chmodSync(path, 0o755)
  await expect(openDataFolder(path)).rejects.toThrow(
    `the data folder ${path} has mode 0755, so others can enter it, and it contains other files, which may be shared on purpose: run chmod 700 ${path} as its owner, or use a new folder inside it with --data`,
  )
  expect(modeOf(path)).toBe(0o755)
  const inner = await openDataFolder(join(path, 'data'))
  expect(modeOf(inner.path)).toBe(0o700)
  await inner.close()
})

test.skipIf(!isRoot)("another user's folder that others can enter is refused with what to do", async () => {
  const path = newPath()
  mkdirSync(path)
  chmodSync(join(path, '..'), 0o755)
  chmodSync(path, 0o777)
  expect(await refusalElsewhere(path)).toContain(
    `DataFolderError: the data folder ${path} has mode 0777, so others can enter it, and this user cannot change that: run chmod 700 ${path}`,
  )
})

test('missing parent folders are created too, for the owner only', async () => {
  const path = newPath()
  await (await openDataFolder(join(path, 'a', 'b'))).close()
  expect([modeOf(path), modeOf(join(path, 'a')), modeOf(join(path, 'a', 'b'))]).toEqual([0o700, 0o700, 0o700])
})

test.skipIf(process.platform !== 'linux')('a place in which no folder can be created is a clear error', async () => {
  await expect(openDataFolder('/proc/nope/inner')).rejects.toThrow(
    'the data folder /proc/nope/inner cannot be created: the system allows no folder there; use another one with --data',
  )
})

test('a state file that cannot be read, and one that cannot be written, are clear errors', async () => {
  const unreadable = newPath()
  mkdirSync(join(unreadable, 'state.json'), { recursive: true })
  const refused = await openDataFolder(unreadable).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(DataFolderError)
  expect((refused as Error).message).toMatch(
    /state\.json cannot be read \(EISDIR\): make this user the owner of the data folder and its files/,
  )

  const path = newPath()
  const folder = await openDataFolder(path)
  rmSync(join(path, 'state.json'))
  mkdirSync(join(path, 'state.json'))
  await expect(folder.markClean()).rejects.toThrow(`the data folder ${path} cannot be written (EISDIR): free some space on its disk`)
  expect(readdirSync(path).filter(name => name.endsWith('.draft'))).toEqual([])
  await folder.close()
})
