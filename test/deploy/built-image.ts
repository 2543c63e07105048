// The image of deploy/Dockerfile, built by buildah on a small Debian without a shell, and its processes, on a read-only root.

import { execFile } from 'node:child_process'
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../tidy/files.ts'

const run = promisify(execFile)
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }

/** What a runtime reads in the image. */
export interface ImageConfig {
  readonly User: string
  readonly Env: readonly string[]
  readonly WorkingDir: string
  readonly Entrypoint: readonly string[]
  readonly Cmd: readonly string[]
  readonly StopSignal: string
  readonly Healthcheck: { readonly Test: readonly string[] }
  readonly Labels: Readonly<Record<string, string>>
}

/** Another one than by default, as Compose builds it for the owner of the secrets. */
export const imageUser = '1000:1000'

export interface BuiltImage {
  /** Of package.json, which it is labelled with. */
  readonly version: string
  readonly config: ImageConfig
  /** Of all its files. */
  readonly bytes: number
  /** The command that runs these words in the image, as its user, with its root read-only and without another file system than /proc. */
  command(words: readonly string[]): string[]
  remove(): Promise<void>
}

export async function buildImage(): Promise<BuiltImage> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-image-'))
  const storage = ['--root', join(folder, 'images'), '--runroot', join(folder, 'run'), '--storage-driver', 'vfs']
  const buildah = async (...words: string[]): Promise<string> => {
    const { stdout } = await run('buildah', [...storage, ...words], { cwd: root, maxBuffer: 64 * 1024 * 1024 })
    return stdout.trim()
  }
  await makeBase(join(folder, 'base'))
  const base = await buildah('from', 'scratch')
  await buildah('add', base, join(folder, 'base'), '/')
  // The base of a machine behind a proxy knows the certificates of the machine.
  const given = [
    'PATH=/usr/local/bin:/usr/bin',
    ...Object.entries(process.env).flatMap(([name, value]) => (isForNpm(name) ? [`${name}=${value}`] : [])),
  ]
  await buildah('config', ...given.flatMap(variable => ['--env', variable]), base)
  await buildah('commit', '--format', 'docker', base, 'base')
  await buildah(
    'build',
    '--format',
    'docker',
    '--isolation',
    'chroot',
    '--build-arg',
    'BASE=localhost/base',
    '--build-arg',
    `VERSION=${version}`,
    '--build-arg',
    `RUN_AS=${imageUser}`,
    '-f',
    'deploy/Dockerfile',
    '-t',
    'sluice',
    '.',
  )
  const { Docker } = JSON.parse(await buildah('inspect', '--type', 'image', 'sluice')) as { Docker: { config: ImageConfig } }
  const files = await buildah('mount', await buildah('from', 'localhost/sluice'))
  const { stdout: size } = await run('du', ['-sb', files])
  const { User: user, WorkingDir: place } = Docker.config
  const mounts = `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && mount -t proc proc "$0/proc"`
  const [uid, gid] = user.split(':')
  const enter = `exec unshare --root="$0" --wd=${place} -S ${uid} -G ${gid} "$@"`
  return {
    version,
    config: Docker.config,
    bytes: Number(size.split('\t')[0]),
    command: words => ['unshare', '--mount', 'sh', '-c', `${mounts} && ${enter}`, files, ...words],
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}

function isForNpm(name: string): boolean {
  return (
    /^(npm_config_\w+|NODE_EXTRA_CA_CERTS|https?_proxy|no_proxy)$/i.test(name) &&
    !/^npm_config_(cache|prefix|userconfig|globalconfig)/i.test(name)
  )
}

/** Debian's C and C++ libraries, the project's Node, and npm: what node:24 has, without a shell. */
async function makeBase(base: string): Promise<void> {
  const release = /^VERSION_CODENAME=(\w+)$/m.exec(await readFile('/etc/os-release', 'utf8'))![1]!
  await run('mmdebstrap', ['--quiet', '--variant=extract', '--include=libc6,libstdc++6,ca-certificates', release, base])
  const modules = join(base, 'usr/local/lib/node_modules')
  for (const folder of [modules, join(base, 'usr/local/bin'), join(base, 'proc'), join(base, 'etc/ssl/certs')])
    mkdirSync(folder, { recursive: true })
  copyFileSync(process.execPath, join(base, 'usr/local/bin/node'))
  const { stdout } = await run('npm', ['root', '--global'])
  cpSync(join(stdout.trim(), 'npm'), join(modules, 'npm'), { recursive: true, dereference: true })
  const certificates = process.env['NODE_EXTRA_CA_CERTS']
  if (certificates === undefined) return
  mkdirSync(dirname(join(base, certificates)), { recursive: true })
  copyFileSync(certificates, join(base, certificates))
}
