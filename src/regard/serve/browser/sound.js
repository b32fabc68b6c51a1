/* Recordings: from the microphone or from a file of any kind that the browser knows, as WAV. */
const canRecord = () => Boolean(navigator.mediaDevices?.getUserMedia && window.MediaRecorder);

/* Records until it is told to end; gives the file then. */
async function recorder() {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true }), pieces = [];
  const machine = new MediaRecorder(stream);
  machine.ondataavailable = (event) => pieces.push(event.data);
  const ended = new Promise((done) => { machine.onstop = done; });
  machine.start();
  return async () => {
    machine.stop();
    await ended;
    stream.getTracks().forEach((track) => track.stop());
    return wavOf(new Blob(pieces, { type: machine.mimeType }), "recording.wav");
  };
}

async function wavOf(blob, name) {
  const context = new AudioContext();
  try {
    const heard = await context.decodeAudioData(await blob.arrayBuffer());
    return new File([wav(mixed(heard), heard.sampleRate)], name, { type: "audio/wav" });
  } catch { throw new Refused("This recording cannot be read here."); }
  finally { context.close(); }
}
function mixed(heard) {
  const whole = new Float32Array(heard.length);
  for (let c = 0; c < heard.numberOfChannels; c++) heard.getChannelData(c).forEach((v, i) => { whole[i] += v / heard.numberOfChannels; });
  return whole;
}

/* RIFF: one channel of sixteen bits. */
function wav(samples, rate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const word = (at, text) => [...text].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  word(0, "RIFF"); view.setUint32(4, 36 + 2 * samples.length, true); word(8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, rate, true); view.setUint32(28, 2 * rate, true); view.setUint16(32, 2, true); view.setUint16(34, 16, true);
  word(36, "data"); view.setUint32(40, 2 * samples.length, true);
  samples.forEach((v, i) => view.setInt16(44 + 2 * i, Math.round(32767 * Math.max(-1, Math.min(1, v))), true));
  return view.buffer;
}
